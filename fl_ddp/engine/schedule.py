"""The clients' learning rate over the rounds, in torch's words."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

ScheduleName = Literal["exponential", "cosine"]


@dataclass(frozen=True)
class Schedule:
    """How the learning rate falls, as torch.optim.lr_scheduler's classes of these names do, a round being an epoch.

    Attributes:
        name: of the rule.
        lr: in round 0.
        decay: factor per round, of exponential.
        least: where cosine ends, one round after the last.
        rounds: over which cosine falls.
    """

    name: ScheduleName
    lr: float
    decay: float = 1.0
    least: float = 0.0
    rounds: int = 1

    def in_round(self, index: int) -> float:
        """The learning rate of a round, counted from 0."""
        if self.name == "exponential":
            return self.lr * self.decay**index
        return self.least + (self.lr - self.least) * (1 + math.cos(math.pi * index / self.rounds)) / 2
