"""How much of a round's local training each client does, and at what rate."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from schedule import Schedule, Work
from settings import Settings


@dataclass(frozen=True)
class Pace:
    """What is of each client.

    Attributes:
        settings: of the run.
        schedule: what is random.
    """

    settings: Settings
    schedule: Schedule

    @property
    def of_all(self) -> Work:
        """The work that a run's options give everyone."""
        return self.settings.epochs, self.settings.local_steps

    def stragglers(self, t: int, cohort: Sequence[int]) -> Collection[int]:
        """Those of round t's cohort that do a part of their work."""
        order = sorted(cohort, key=lambda k: self.schedule.late(t, k)[0])
        return order[: round(self.settings.stragglers * len(cohort))]

    def lr_factor(self, k: int) -> float:
        """What client k's learning rate is multiplied by."""
        return self._factor("client_lr", self.settings.client_lr, k)

    def work(self, t: int, k: int, late: bool) -> Work:
        """Epochs, or steps, of client k in round t, maybe as a straggler: x epochs, x uniform in 1, ..., E."""
        factor = self._factor("client_work", self.settings.client_work, k)
        epochs, steps = self.of_all
        draw = self.schedule.late(t, k)[1]
        if steps is not None:
            steps = max(round(factor * steps), 1)
            return None, 1 + math.floor(draw * steps) if late else steps
        assert epochs is not None
        epochs = factor * epochs
        return 1 + math.floor(draw * math.floor(epochs)) if late and epochs >= 1 else epochs, None

    def _factor(self, option: str, text: str | None, k: int) -> float:
        if text is None:
            return 1.0
        if text.endswith(".csv"):
            with Path(text).open(newline="", encoding="utf-8") as file:
                return next((float(row["factor"]) for row in csv.DictReader(file) if int(row["client"]) == k), 1.0)
        law, _, bounds = text.rstrip(")").partition("(")
        low, high = map(float, bounds.split(","))
        draw = self.schedule.of_client(option, k)
        return low + draw * (high - low) if law == "uniform" else low ** (1 - draw) * high**draw
