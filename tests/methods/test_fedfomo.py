"""FedFomo's weights by hand on three clients, and which models a client is sent."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from given import round_of_one_task
from quadratic import Clients, OneWeight, Rounds, alike, approx, small_network, uneven_clients
from torch import Tensor
from torch.nn import functional as F

from fl_ddp.engine.plan import Plan
from fl_ddp.methods.fedfomo import FedFomo
from fl_ddp.protocol import Tensors

JUDGED = FedFomo.judged
STILL = Plan(5, 1.0, None, 1e-300)


def clients(num: int) -> Clients:
    """Losses 1/2 theta^2."""
    return alike(torch.tensor([[1.0, 0.0, 0.0]], dtype=torch.float64).expand(num, 3), [5] * num)


def told(models: list[float], **options: object) -> tuple[Tensors, FedFomo]:
    """A server that knows these models, and that client 0 likes them in this order."""
    num = len(models)
    method = FedFomo(OneWeight(0.0), models=num, num_clients=num, epsilon=0.0, **options)  # type: ignore[arg-type]
    theta = torch.tensor(models, dtype=torch.float64)[:, None]
    affinity = torch.arange(float(num), 0, -1, dtype=torch.float64).repeat(num, 1)
    return {"theta": theta[0], "models": theta, "known": torch.ones(num), "affinity": affinity}, method


@pytest.fixture(autouse=True)
def quadratic_losses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are judged by 1/2 theta^2, which a cross-entropy of one class cannot be; the reference judges by that."""
    monkeypatch.setattr(FedFomo, "judged", lambda self, judges, theta: theta[:, 0].square() / 2)


def updated(server: Tensors, method: FedFomo, before: float) -> tuple[float, list[float]]:
    """Where client 0 starts, and what it says of the models."""
    rounds = Rounds(method, clients(method.num_clients), STILL, lanes=1)
    group = next(rounds.groups(np.arange(1)))
    upload = method.client_update(group, server, {"before": torch.full((1, 1), before, dtype=torch.float64)})
    assert torch.equal(upload.memory["before"], upload.theta)
    return upload.theta.item(), upload.rows["gains"][0].tolist()


def test_weights_are_gains_over_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loss 1 at 0; (.4 at distance 2), (.7 at .5), (1.5 at 1): quotients .3, .6, -.5 and weights 1/3, 2/3, 0."""
    losses = iter([1.0, 1.0, 0.4, 0.7, 1.5])
    monkeypatch.setattr(FedFomo, "judged", lambda *_: torch.full((1,), next(losses), dtype=torch.float64))
    start, gains = updated(*told([0.0, 2.0, -0.5, 1.0]), before=0.0)
    assert start == approx(1 / 3 * 2 - 2 / 3 * 0.5)
    assert gains == approx([0, 0.3, 0.6, -0.5])


def test_models_are_judged_by_their_losses() -> None:
    """From 2, loss 2: model 1 has loss 1/2 at distance 1, model -1 1/2 at distance 3: 3/2 and 1/2."""
    start, gains = updated(*told([2.0, 1.0, -1.0]), before=2.0)
    assert gains == approx([0, 1.5, 0.5])
    assert start == approx(2 + 0.75 * -1 + 0.25 * -3)


def test_where_no_model_is_better_a_client_goes_on_from_its_own() -> None:
    start, gains = updated(*told([0.5, 2.0, -3.0]), before=0.25)
    assert start == 0.5
    assert all(gain < 0 for gain in gains)


def test_a_model_that_is_not_known_is_not_weighed() -> None:
    server, method = told([2.0, 1.0, -1.0])
    server["known"][1] = 0
    start, gains = updated(server, method, before=2.0)
    assert start == approx(-1.0)
    assert gains == approx([0, 0, 0.5])


def test_a_client_that_stands_beside_a_model_but_for_rounding_gains_nothing_by_it() -> None:
    """It moved there all the way in its last round; the other has not trained since."""
    start, gains = updated(*told([2.0, 1.0]), before=1.0 + 2.0**-52)
    assert gains == approx([-1.5, 0])
    assert start == 2.0


def test_held_out_samples_judge_by_their_mean_cross_entropy() -> None:
    """Each lane by its own samples and its own model; who has none says 0."""
    model, own = small_network(), uneven_clients()
    method = FedFomo(model, num_clients=5)
    group = next(Rounds(method, own, STILL, lanes=5).groups(np.arange(5)))
    theta = model.init() + torch.arange(5.0)[:, None] / 10
    losses = [
        float(F.cross_entropy(model.logits(theta[k], own.samples.x[part]), own.samples.y[part]))
        for k, part in enumerate(own.parts)
    ]
    assert JUDGED(method, group, theta).tolist() == pytest.approx(losses, rel=1e-5)
    held_out, _ = group.split(0.2)
    assert held_out.n.tolist()[3] == 0 < JUDGED(method, held_out, theta)[2]
    assert JUDGED(method, held_out, theta)[3] == 0


def test_the_norm_of_a_distance() -> None:
    gap = torch.zeros(2, small_network().num_params)
    gap[0, 0], gap[0, -1] = 3.0, -4.0
    for options, length in (({}, 5.0), ({"norm": "l2"}, 5.0), ({"norm": "l1"}, 7.0)):
        method = FedFomo(small_network(), num_clients=2, **options)  # type: ignore[arg-type]
        assert method._length(gap).tolist() == [length, 0]


def chosen(epsilon: float, index: int = 0, models: int = 3) -> list[list[int]]:
    num = 6
    method = FedFomo(OneWeight(0.0), models=models, num_clients=num, epsilon=epsilon)
    rounds = Rounds(method, clients(num), STILL, lanes=num)
    rounds.finished = index
    affinity = torch.arange(36.0).view(6, 6) % 5
    known = torch.tensor([1.0, 1, 1, 1, 1, 0])
    group = next(rounds.groups(np.arange(num)))
    found: Tensor = method.chosen(group, {"known": known, "affinity": affinity})
    return [[int(i) for i in own] for own in found]


def test_the_best_liked_models_are_sent_and_always_one_s_own() -> None:
    affinity = (torch.arange(36).view(6, 6) % 5).tolist()
    for k, own in enumerate(chosen(0.0)):
        others = sorted((j for j in range(5) if j != k), key=lambda j: -affinity[k][j])[:2]
        assert own == [k, *others]


def test_others_are_drawn_at_random_less_and_less() -> None:
    """Epsilon falls by 0.05 a round."""
    liked = chosen(0.0)
    assert chosen(1.0) != liked
    assert all(own[0] == k and 5 not in own[1:] for k, own in enumerate(chosen(1.0)) if k != 5)
    assert chosen(1.0, index=20) == liked


def test_the_server_keeps_models_and_adds_up_what_is_said() -> None:
    method = FedFomo(OneWeight(2.0), num_clients=3, epsilon=0.0)
    rounds = Rounds(method, clients(3), Plan(5, 1.0, None, 0.1), lanes=2)
    rounds.play([0, 2])
    assert rounds.server["known"].tolist() == [1, 0, 1]
    for k in (0, 2):
        assert rounds.server["models"][k] == rounds.local[k]
    assert rounds.server["models"][1] == 2.0
    assert not rounds.server["affinity"].any()
    first = rounds.play([0, 1, 2])["affinity"].clone()
    assert first.any()
    second = rounds.play([1])["affinity"]
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])


def test_traffic() -> None:
    method = FedFomo(OneWeight(0.0), models=5, num_clients=9)
    server = method.init()
    first, later = (round_of_one_task(t) for t in (0, 1))
    assert method.sent_bytes(server, first) == 8
    assert method.sent_bytes(server, later) == 4 * 8
    assert FedFomo(OneWeight(0.0), models=5, num_clients=3).sent_bytes(server, later) == 2 * 8
