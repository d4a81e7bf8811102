"""Importance of one client after another: what it costs, in which threads, and the same bits in any company."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TypeVar

import numpy as np
import pytest
import torch
from importance_bench import PLAN, bench
from launching import one_thread
from torch import nn

from fl_ddp.compiler.compilation import layout
from fl_ddp.engine.group import Group
from fl_ddp.importance import fisher as importance_pass
from fl_ddp.importance.fisher import fisher
from fl_ddp.protocol import Round
from fl_ddp.ranks.threads import workers_on

SHAPE = (1, 6, 6)
SIZES = (60, 1, 50, 7)
LANES = 5
Item = TypeVar("Item")


def cnn() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 2, 3, stride=2), nn.GroupNorm(1, 2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))


@pytest.mark.parametrize(("most", "expected"), [(importance_pass._ALONE, 2), (0, 2 + 1 + 1 + 1)])
def test_a_large_models_clients_cost_what_their_samples_do(
    most: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In chunks, each of which is preceded by a check: of all lanes as long as one has samples, or of each."""
    monkeypatch.setattr(importance_pass, "_ALONE", most)
    calls: list[None] = []
    b = bench(cnn, SHAPE, SIZES, check=lambda: calls.append(None))
    fisher(b.group(range(4), LANES), b.theta(LANES), b.model)
    assert len(calls) == expected


def test_a_large_models_clients_have_their_bits_in_any_number_of_lanes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importance_pass, "_ALONE", 0)
    b = bench(cnn, SHAPE, SIZES, dtype=torch.float32)
    theta = b.theta(LANES)
    together = fisher(b.group(range(4), LANES), theta, b.model)
    for client in range(4):
        assert torch.equal(fisher(b.group([client]), theta[client], b.model)[0], together[client])


def test_a_large_models_clients_go_on_in_idle_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importance_pass, "_ALONE", 0)
    b = bench(cnn, SHAPE, SIZES, dtype=torch.float32)
    theta, group = b.theta(LANES), b.group(range(4), LANES)
    with one_thread():
        expected, given = fisher(group, theta, b.model), list[object]()

    def spread(work: Callable[[Item], None], items: Iterable[Item]) -> None:
        lanes = [*items]
        given.extend(lanes)
        workers_on("cpu").spread(work, lanes[::-1])

    group.workplace = replace(group.workplace, spread=spread)
    with one_thread():  # as in a run: helping threads have one of torch's each
        assert torch.equal(fisher(group, theta, b.model), expected) and given == [*range(LANES)]


def test_a_client_alone_has_what_it_has_in_company() -> None:
    ragged = bench(cnn, SHAPE, SIZES)
    ids, numbers = np.array([2, 0]), np.array([3.0, 1.5, 1.0])
    own = [ragged.clients[i] for i in ids]
    of_each = (replace(PLAN, epochs=numbers, lr_factor=numbers), replace(PLAN, epochs=None, steps=np.array([4, 2, 1])))
    for plan in (PLAN, *of_each):
        group = Group(ragged.work, plan, ids, own, 3, 7, Round(2, 0, True, 0))
        for lane in range(3):
            alone = group.alone(lane)
            for name in ("n", "real", "steps", "lr_factor", "keys", "task_keys", "client"):
                assert np.array_equal(getattr(alone, name), getattr(group, name)[[lane]]), name
            assert (alone.round, alone.ends_task, alone.previous) == (2, True, 0)


def test_batches_of_one_lane_are_laid_out_alike_for_any_number_of_samples() -> None:
    """Each layout is compiled anew, and numpy has a say in the strides of what is one long."""
    b = bench(cnn, SHAPE, (5, 60, 130))
    groups = [b.group([client]) for client in range(3)]
    for draws in ([g.once(50) for g in groups], [g.in_order(50) for g in groups]):
        assert len({layout((d.x, d.y, d.mask, d.key)) for drawn in draws for d in drawn}) == 1
