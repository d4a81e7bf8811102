"""The options of a run that its numbers depend on, beside those of its method."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Settings:
    """Options of the command line, with its defaults."""

    clients: int = 20
    participation: float | None = None
    cohort: int | None = None
    client_sampling: str = "uniform"
    dropout_rate: float = 0.0
    availability: str | None = None
    local_test: float = 0.0
    local_test_from: str = "train"
    personalise: str = "cohort"
    class_reduction: str | None = None
    rounds: int = 100
    local_epochs: float | None = None
    local_steps: int | None = None
    client_lr: str | None = None
    client_work: str | None = None
    stragglers: float = 0.0
    drop_stragglers: bool = False
    batch_size: int = 10
    drop_last: bool = False
    lr: float = 0.1
    lr_schedule: str = "exponential"
    lr_schedule_over: str = "rounds"
    lr_decay: float = 1.0
    lr_step: int | None = None
    lr_min: float = 0.0
    lr_warmup: int | None = None
    momentum: float = 0.0
    weight_decay: float = 0.0
    clip_norm: float | None = None
    augment: tuple[str, ...] = ()
    loss: str = "cross_entropy"
    label_smoothing: float = 0.0
    running_statistics: str = "average"
    estimate_statistics: bool = False
    seed: int = 0
    eval_every: int = 1
    forgetting_every: int = 0
    stop_at: str | None = None
    patience: int | None = None

    def cohort_of(self, present: int) -> int:
        """m = max(round(C n), 1) of n clients that may take part, if it is not given."""
        if self.cohort is not None:
            return min(self.cohort, present)
        return max(round((1.0 if self.participation is None else self.participation) * present), 1)

    @property
    def local(self) -> bool:
        """Whether each client keeps BatchNorm's running statistics to itself."""
        return self.running_statistics == "local"

    @property
    def epochs(self) -> float | None:
        """Passes of a client over its samples; None where its steps are counted."""
        if self.local_steps is not None:
            return None
        return 1.0 if self.local_epochs is None else self.local_epochs

    def lr_in(self, t: int) -> float:
        """The learning rate of round t = 0, 1, ..., or the one with which its local steps begin."""
        return self.lr if self.lr_schedule_over == "steps" else self.scheduled(t, self.rounds)

    def lr_at(self, step: int, steps: int) -> float:
        """By what the learning rate is multiplied in a local step of so many."""
        return self.scheduled(step, steps) / self.lr if self.lr_schedule_over == "steps" else 1.0

    def scheduled(self, t: int, end: int) -> float:
        """The schedule after t of so many rounds or steps."""
        if self.lr_schedule == "warmup_cosine" and t < (self.lr_warmup or 0):
            return self.lr * (t + 1) / (self.lr_warmup or 0)
        if self.lr_schedule.endswith("cosine"):
            begin = (self.lr_warmup or 0) if self.lr_schedule == "warmup_cosine" else 0
            angle = math.pi * (t - begin) / max(end - begin, 1)
            return self.lr_min + (self.lr - self.lr_min) * (1 + math.cos(angle)) / 2
        if self.lr_schedule == "step":
            return self.lr * self.lr_decay ** (t // (self.lr_step or 1))
        return self.lr if self.lr_schedule == "constant" else self.lr * self.lr_decay**t

    def enough(self, rows: Sequence[Mapping[str, float]]) -> bool:
        """Whether the newest evaluation reaches what it should, or no better one has come for long enough."""
        name, _, wanted = (self.stop_at or "accuracy").partition("=")
        sign = -1 if name == "loss" else 1
        seen = [sign * row[name] for row in rows if name in row and row["cohort"]]
        if not seen:
            return False
        stale = len(seen) - 1 - seen.index(max(seen))
        return bool(wanted and seen[-1] >= sign * float(wanted)) or (
            self.patience is not None and stale >= self.patience
        )


def settings_of(options: Mapping[str, Any]) -> Settings:
    """The settings among a run's options."""
    names = {field.name for field in fields(Settings)}
    return Settings(**{name: value for name, value in options.items() if name in names})
