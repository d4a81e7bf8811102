"""Learning rates over rounds."""

from __future__ import annotations

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, LRScheduler

from fl_ddp.engine.schedule import Schedule

ROUNDS = 12


@pytest.mark.parametrize("cosine", [False, True])
def test_schedules_are_torchs(cosine: bool) -> None:
    ours = Schedule("cosine" if cosine else "exponential", lr=0.5, decay=0.9, least=0.02, rounds=ROUNDS)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.5)
    theirs: LRScheduler = CosineAnnealingLR(optimizer, ROUNDS, 0.02) if cosine else ExponentialLR(optimizer, 0.9)
    for index in range(ROUNDS + 1):
        assert ours.in_round(index) == pytest.approx(optimizer.param_groups[0]["lr"], rel=1e-12)
        optimizer.step()
        theirs.step()
