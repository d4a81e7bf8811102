"""FedPer and FedRep: whose head and body end where, with nothing but the two trainings of a client."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from given import round_of_one_task
from quadratic import Rounds, small_network, uneven_clients
from torch import nn

from fl_ddp.engine.plan import Plan
from fl_ddp.errors import ConfigError
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fedpac import FedPAC
from fl_ddp.methods.fedper import FedPer
from fl_ddp.methods.fedrep import FedRep
from fl_ddp.network.flat_model import FlatModel

PLAN = Plan(3, 1.0, None, 0.1)
MODEL = small_network()
HEAD, BODY = (2, 3), (0, 1)


def rounds_of(method: FedAvg) -> Rounds:
    return Rounds(method, uneven_clients(), PLAN)


def test_head_and_body_of_a_model() -> None:
    assert MODEL.head == HEAD
    assert MODEL.body == BODY
    theta = torch.arange(float(MODEL.num_params))
    head, body = MODEL.take(theta, HEAD), MODEL.take(theta, BODY)
    assert torch.equal(torch.cat([body, head]), theta)
    assert torch.equal(MODEL.put(theta, HEAD, head + 1), theta + MODEL.mask(HEAD))
    assert torch.equal(MODEL.put(MODEL.put(0 * theta, BODY, body), HEAD, head), theta)
    assert torch.equal(MODEL.put(theta, BODY, torch.zeros(2, len(body)))[1], theta * MODEL.mask(HEAD))


@pytest.mark.parametrize("method", [FedPer(MODEL), FedRep(MODEL, head_epochs=2.0)], ids=["FedPer", "FedRep"])
def test_the_head_stays_and_the_body_is_the_mean_s(method: FedAvg) -> None:
    rounds = rounds_of(method)
    rounds.play([0, 1, 2])
    heads = {k: MODEL.take(rounds.local[k], HEAD) for k in rounds.local}
    for k, head in heads.items():
        assert torch.equal(rounds.remembered("head")[k], head)
    received = rounds.server["theta"]
    n = torch.tensor([len(rounds.clients.parts[k]) for k in range(3)], dtype=torch.float64)
    mean = sum(n[k] * rounds.local[k].double() for k in range(3)) / n.sum()
    torch.testing.assert_close(received.double(), mean, rtol=0, atol=1e-6)
    start = MODEL.put(received, HEAD, heads[1])
    alone = Rounds(replace(method), rounds.clients, replace(PLAN, lr=1e-30))
    alone.server, alone.memory = rounds.server, rounds.memory
    alone.play([1, 3])
    assert torch.equal(alone.local[1], start), "next time it begins with the mean body and its own head"
    assert torch.equal(MODEL.take(alone.local[3], HEAD), MODEL.take(MODEL.init(), HEAD))


def test_fedper_trains_all_at_once() -> None:
    """From the common start its clients end where FedAvg's do."""
    ours, theirs = rounds_of(FedPer(MODEL)), rounds_of(FedAvg(MODEL))
    ours.play()
    theirs.play()
    assert all(torch.equal(ours.local[k], theirs.local[k]) for k in range(5))


@pytest.mark.parametrize(
    "method",
    [FedRep(MODEL, head_epochs=1.0), FedPAC(MODEL, head_epochs=1.0, head_lr=1.0, num_clients=5)],
    ids=["FedRep", "FedPAC"],
)
def test_a_part_that_is_not_trained_counts_in_no_norm(method: FedAvg) -> None:
    """Two steps of length 1e-3, one of the head, one of the body."""
    rounds = Rounds(method, uneven_clients(), Plan(9, None, 1, 1.0, clip_norm=1e-3))
    rounds.play()
    start = MODEL.init()
    for k in range(5):
        for part in (HEAD, BODY):
            moved = MODEL.take(rounds.local[k], part) - MODEL.take(start, part)
            assert moved.norm().item() == pytest.approx(1e-3, rel=1e-3)


def test_fedrep_trains_the_head_first_and_only_then_the_body() -> None:
    """A body step of no length leaves a head that was trained on the received body."""
    rounds = rounds_of(FedRep(MODEL, head_epochs=3.0))
    rounds.play()
    trained_longer = rounds_of(FedRep(MODEL, head_epochs=3.0))
    trained_longer.plan = replace(PLAN, epochs=4.0)
    trained_longer.play()
    start = MODEL.init()
    for k in range(5):
        head = MODEL.take(rounds.local[k], HEAD)
        assert torch.equal(head, MODEL.take(trained_longer.local[k], HEAD)), "the head does not see the body's training"
        assert not torch.equal(head, MODEL.take(start, HEAD))
        assert not torch.equal(MODEL.take(rounds.local[k], BODY), MODEL.take(start, BODY))
        assert not torch.equal(MODEL.take(rounds.local[k], BODY), MODEL.take(trained_longer.local[k], BODY))


def test_only_the_body_travels() -> None:
    for method in (FedPer(MODEL), FedRep(MODEL)):
        rounds = rounds_of(method)
        group = next(rounds.groups(np.arange(2)))
        upload = method.client_update(group, method.init(), rounds.memory.take(group.client))
        assert {name: t.shape[1:].numel() for name, t in upload.on_the_wire.items() if isinstance(t, torch.Tensor)} == {
            "weight": 1,
            "shared": 40,
        }
        assert method.sent_bytes(method.init(), round_of_one_task(0)) == 40 * 4


@pytest.mark.parametrize("method", [FedPer, FedRep])
def test_a_model_without_a_body_is_refused(method: type[FedAvg]) -> None:
    linear = FlatModel(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)), 3, torch.zeros(1, 4))
    name = method.__name__
    with pytest.raises(ConfigError, match=f"Sequential has no parameters before them, and {name} parts head and body"):
        method(linear)
