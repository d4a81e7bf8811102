"""The clients' learning rate over the rounds, or over the local steps of each, in torch's words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

ScheduleName = Literal["constant", "exponential", "step", "cosine", "warmup_cosine"]
ScheduleUnit = Literal["rounds", "steps"]


def falls_over_rounds(name: str, over: str) -> bool:
    """Whether a schedule, in such units, depends on how many rounds there are."""
    return name.endswith("cosine") and over == "rounds"


@dataclass(frozen=True)
class Schedule:
    """How the learning rate changes, as torch.optim.lr_scheduler has it, in units of rounds or of local steps.

    ExponentialLR, StepLR, CosineAnnealingLR, or that after LinearLR from 1 / warmup on.

    Attributes:
        name: of the rule.
        lr: that it begins with, or, with a warm-up, rises to.
        decay: factor per unit, of exponential, or of each fall, of step.
        every: units between falls, of step.
        least: where a cosine ends, one unit after the last.
        warmup: units in which it rises, of warmup_cosine.
    """

    name: ScheduleName
    lr: float
    decay: float = 1.0
    every: int = 1
    least: float = 0.0
    warmup: int = 0

    def at(self, index: int, length: int) -> float:
        """The learning rate in unit index, from 0, of so many."""
        if self.name == "constant":
            return self.lr
        if self.name == "exponential":
            return self.lr * self.decay**index
        if self.name == "step":
            return self.lr * self.decay ** (index // self.every)
        warmup = self.warmup if self.name == "warmup_cosine" else 0
        if index < warmup:
            return self.lr * (index + 1) / warmup
        share = (index - warmup) / max(length - warmup, 1)
        return self.least + (self.lr - self.least) * (1 + math.cos(math.pi * share)) / 2

    def over_steps(self, steps: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The learning rate [T, G] in each local step of clients with so many steps [G], 0 behind their last one."""
        table = np.zeros((int(np.max(steps, initial=0)), len(steps)))
        for number in np.unique(steps):
            rates = np.array([self.at(index, int(number)) for index in range(int(number))])
            table[: int(number), steps == number] = rates[:, None]
        return table
