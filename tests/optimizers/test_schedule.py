"""Learning rates over rounds and over local steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.optim.lr_scheduler import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LinearLR,
    LRScheduler,
    SequentialLR,
    StepLR,
)

from fl_ddp.optimizers.schedule import Schedule, ScheduleName

LENGTH = 12
OURS = Schedule("constant", lr=0.5, decay=0.9, every=5, least=0.02, warmup=4)


def torchs_own(name: ScheduleName, optimizer: torch.optim.Optimizer) -> LRScheduler:
    if name == "constant":
        return ConstantLR(optimizer, 1.0)
    if name == "exponential":
        return ExponentialLR(optimizer, 0.9)
    if name == "step":
        return StepLR(optimizer, 5, 0.9)
    if name == "cosine":
        return CosineAnnealingLR(optimizer, LENGTH, 0.02)
    rise = LinearLR(optimizer, 1 / 4, total_iters=3)
    return SequentialLR(optimizer, [rise, CosineAnnealingLR(optimizer, LENGTH - 4, 0.02)], [4])


@pytest.mark.parametrize("name", ["constant", "exponential", "step", "cosine", "warmup_cosine"])
def test_schedules_are_torchs(name: ScheduleName) -> None:
    ours = replace(OURS, name=name)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    theirs = torchs_own(name, optimizer)
    for index in range(LENGTH + 1):
        assert ours.at(index, LENGTH) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
        optimizer.step()
        theirs.step()


def test_a_run_that_is_shorter_than_its_warm_up_rises_all_along() -> None:
    rising = [replace(OURS, name="warmup_cosine").at(index, 3) for index in range(3)]
    assert rising == [0.125, 0.25, 0.375]


def test_over_steps_each_client_has_its_own_end() -> None:
    cosine = replace(OURS, name="cosine")
    table = cosine.over_steps(np.array([3, 0, 5]))
    assert table.shape == (5, 3)
    assert table[:3, 0].tolist() == [cosine.at(i, 3) for i in range(3)] and not table[3:, 0].any()
    assert not table[:, 1].any() and table[:, 2].tolist() == [cosine.at(i, 5) for i in range(5)]
    assert cosine.over_steps(np.zeros(2, np.int64)).shape == (0, 2)
