"""The loss that a name stands for."""

from __future__ import annotations

from fl_ddp.losses.bce import BCE
from fl_ddp.losses.choices import LossName
from fl_ddp.losses.criterion import Criterion
from fl_ddp.losses.cross_entropy import CrossEntropy
from fl_ddp.losses.mse import MSE


def loss_named(name: LossName, label_smoothing: float) -> Criterion:
    """The loss of a run; label_smoothing is of that with classes."""
    return {"cross_entropy": CrossEntropy(label_smoothing), "mse": MSE(), "bce": BCE()}[name]
