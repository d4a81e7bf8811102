"""What a method can vary in a training of its clients: plan, order of batches, samples."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from quadratic import (
    LR,
    TAU,
    THETA_0,
    A,
    B,
    OneWeight,
    Rounds,
    approx,
    epoch_of_single_samples,
    quadratic,
    small_network,
    uneven_clients,
)

from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.methods.fedavg import FedAvg

PLAN = Plan(3, 1.0, None, 0.1)
SHARE = 0.3


def group_of(method: FedAvg, index: int = 0) -> Group:
    rounds = Rounds(method, uneven_clients(), PLAN, lanes=6)
    rounds.finished = index
    return next(rounds.groups(np.arange(5)))


def test_another_plan_has_its_own_rates_steps_and_mean_loss() -> None:
    method = FedAvg(OneWeight())
    rounds = Rounds(method, quadratic(), epoch_of_single_samples(), lanes=3)
    group = next(rounds.groups(np.arange(3)))
    start = {"theta": method.model.init()}
    longer = replace(group.plan, epochs=2.0, lr=LR / 2)
    found = group.train(start["theta"], method, start, {}, plan=longer)
    for a, b, tau, theta, loss in zip(A, B, TAU, found.theta, found.loss, strict=True):
        path = b + (1 - LR / 2 * a) ** np.arange(2 * tau + 1) * (THETA_0 - b)
        assert theta.item() == approx(path[-1])
        assert loss.item() == approx(np.mean(a / 2 * (path[:-1] - b) ** 2))


def test_another_draw_is_another_order_and_the_same_one_again() -> None:
    method = FedAvg(small_network())
    group, start = group_of(method), {"theta": method.model.init()}
    ends = [group.train(start["theta"], method, start, {}, draw=draw).theta for draw in (0, 1, 2, 1)]
    assert torch.equal(ends[1], ends[3])
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not torch.equal(ends[one][2], ends[other][2])


def test_held_out_samples_are_the_same_in_every_round_and_nobody_lacks_the_others() -> None:
    method, parts = FedAvg(small_network()), uneven_clients().parts
    held, rest = group_of(method).split(SHARE)
    later, _ = group_of(method, index=4).split(SHARE)
    assert torch.equal(held.positions, later.positions)
    for lane, part in enumerate(parts):
        ours, theirs = (own[own >= 0].tolist() for own in (held.positions[lane], rest.positions[lane]))
        assert sorted(ours + theirs) == part.tolist()
        assert len(ours) == (0 if len(part) == 1 else max(1, round(SHARE * len(part))))
        assert (held.n[lane].item(), rest.n[lane].item()) == (len(ours), len(theirs))
    assert held.n[5] == rest.n[5] == 0
    assert held.round == 0 and np.array_equal(held.client, group_of(method).client)


@pytest.mark.parametrize("share", [0.01, 0.99])
def test_of_two_samples_one_is_in_either_part(share: float) -> None:
    held, rest = group_of(FedAvg(small_network())).split(share)
    sizes = torch.tensor([len(part) for part in uneven_clients().parts], dtype=held.n.dtype)
    assert ((held.n[:5] > 0) == (sizes > 1)).all()
    assert (rest.n[:5] > 0).all()
