"""FedALA's weights by hand on quadratics, and when they are learned."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from quadratic import (
    OneWeight,
    Rounds,
    alike,
    approx,
    epoch_of_single_samples,
    quadratic,
    small_network,
    uneven_clients,
)

from fl_ddp.engine.plan import Plan
from fl_ddp.methods.fedala import FedALA, mixed
from fl_ddp.protocol import Tensors

SAMPLE = torch.tensor([[1.0, 0.25, 0.0]], dtype=torch.float64)
"""L = 1/2 (theta - 1/4)^2."""


def learned(times: float, w: float = 1.0, samples: int = 1, **options: object) -> float:
    """The weight of a client at 0 that receives 1."""
    method = FedALA(OneWeight(), share=1.0, layers=1, **options)  # type: ignore[arg-type]
    rounds = Rounds(method, alike(SAMPLE, [samples]), Plan(1, 1.0, None, 0.1), lanes=2)
    group = next(rounds.groups(np.arange(1)))
    one = torch.ones(2, 1, dtype=torch.float64)
    memory = {"theta": 0 * one, "w": w * one, "times": torch.full((2,), times, dtype=torch.float64)}
    return method.learned(group, {"theta": one[0]}, memory)[0].item()


def test_one_step() -> None:
    """dL/dw = (w - 1/4) (1 - 0): from 1 with eta 1 to 1/4, with eta 1/2 to 5/8."""
    assert learned(2) == approx(0.25)
    assert learned(2, eta=0.5) == approx(0.625)
    assert learned(2, w=0.5, eta=0.5) == approx(0.375)


def test_before_it_learns_anew_a_client_has_the_mixture_by_the_weights_of_before() -> None:
    """Of two coordinates the last is mixed: 1 is received, 0 its own, 1/4 the weight."""
    model = small_network()
    method, last = FedALA(model, layers=1), model.last(1)
    received, own = torch.ones_like(model.init()), torch.zeros_like(model.init())
    memory = {"theta": own, "w": torch.full_like(model.take(own, last), 0.25), "times": torch.tensor(3.0)}
    found = method.own_model({"theta": received}, memory, 0)
    assert torch.equal(model.take(found, last), torch.full_like(model.take(own, last), 0.25))
    assert torch.equal(model.take(found, model.others(last)), model.take(received, model.others(last)))


def test_the_first_time_nothing_is_mixed() -> None:
    assert learned(0) == 1.0


def test_later_there_is_one_pass_of_a_share_of_the_samples() -> None:
    """Each of the four steps goes half of the way."""
    assert learned(2, samples=4, eta=0.5) == approx(0.25 + 0.75 / 16)


def test_the_second_time_passes_go_on_until_the_losses_settle() -> None:
    """The distance to 1/4 halves; with losses from 9/32 down by 4 each pass, three deviate by less than 0.01 soon."""
    distance, losses, passes = 0.75, list[float](), 0
    while not (len(losses) > 3 and np.std(losses[-3:]) < 0.01):
        losses.append(distance**2 / 2)
        distance, passes = distance / 2, passes + 1
    assert passes == 5
    assert learned(1, eta=0.5, losses=3, threshold=0.01) == approx(0.25 + distance)
    assert learned(1, eta=0.5, losses=3, threshold=0.01, passes=2) == approx(0.25 + 0.75 / 4)


def test_weights_stay_between_0_and_1() -> None:
    assert learned(2, eta=4.0) == 0.0
    assert learned(2, w=0.2, eta=1000.0) == 1.0


def test_a_weight_of_1_takes_what_is_received_bit_for_bit() -> None:
    received, own = torch.randn(2, 1000, generator=torch.Generator().manual_seed(0)).unbind()
    assert torch.equal(mixed(received, own, torch.ones(1000)), received)
    torch.testing.assert_close(mixed(received, own, torch.zeros(1000)), own)


def test_only_the_last_tensors_are_mixed_and_training_begins_there(monkeypatch: pytest.MonkeyPatch) -> None:
    method = FedALA(small_network(), layers=1)
    monkeypatch.setattr(FedALA, "learned", lambda self, group, server, memory: torch.zeros_like(memory["w"]))
    rounds = Rounds(method, uneven_clients(), replace(epoch_of_single_samples(), lr=1e-30))
    rounds.play([0])
    own = rounds.local[0] + 1
    rounds.memory.put(np.array([0]), {**rounds.memory.take(np.array([0])), "theta": own[None]})
    rounds.play([0])
    expected = method.model.put(rounds.server["theta"], (3,), method.model.take(own, (3,)))
    torch.testing.assert_close(rounds.local[0], expected)
    assert rounds.remembered("times").tolist() == [2, 0, 0, 0, 0]


def test_lanes_that_have_settled_wait_for_the_others() -> None:
    """Whoever is beside it, a client's weights are those it would have alone."""
    clients = quadratic(slope=(0.0, 0.3, -1.0))
    method = FedALA(OneWeight(), share=1.0, layers=1, losses=2, threshold=0.02, eta=0.1)

    def weights(lanes: int) -> Tensors:
        rounds = Rounds(method, clients, epoch_of_single_samples(), lanes=lanes)
        for cohort in ([0, 1], [0, 1, 2], [0, 1, 2]):
            rounds.play(cohort)
        return {"w": rounds.remembered("w"), "theta": rounds.remembered("theta")}

    alone, together = weights(1), weights(3)
    assert torch.equal(alone["w"], together["w"])
    assert torch.equal(alone["theta"], together["theta"])
