"""When a run ends before its last round: a value is reached, nothing gets better any more, or a callback says so."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan

from fl_ddp.config.settings import Config
from fl_ddp.config.stop_at import FALLING
from fl_ddp.losses.choices import SCORES, LossName
from fl_ddp.results.metrics import Record, of_clients


class Stopping:
    """Follows a run's evaluations, each of which is looked at once: of 100,000 rounds each would look at all before.

    A function of the rounds in metrics.csv alone, so that a run that goes on decides as one that was never interrupted.
    Rounds in which nobody trained, the initial model's among them, do not count.
    """

    def __init__(self, config: Config) -> None:
        """Begin with no evaluation; config's stop_at and its patience count."""
        self._config = config
        self._seen = self._since = 0
        self._newest: float | None = None
        self._best = nan

    def reason(self, evaluated: Sequence[Record]) -> str | None:
        """Why a run ends after its newest evaluation; None if it goes on.

        Args:
            evaluated: records of the evaluated rounds, in their order: those of the last call, and newer ones.
        """
        config = self._config
        if config.stop_at is None and config.patience is None:
            return None
        wanted, name = config.good_enough, config.waited_for
        while self._seen < len(evaluated):
            record = evaluated[self._seen]
            self._seen += 1
            if record.cohort and isfinite(value := _value(record, name, config.loss)):
                self._add(value, less_is_better=name in FALLING)
        if self._newest is None:
            return None
        if wanted and wanted.reached_by(self._newest):
            return f"{name} {self._newest:.4f} has reached {wanted.value:g}"
        if config.patience is not None and self._since >= config.patience:
            return f"{name} has not been better than {self._best:.4f} for {self._since} evaluations"
        return None

    def _add(self, value: float, *, less_is_better: bool) -> None:
        """Take in the value of an evaluation; one that is as good as the best is no better."""
        better = self._newest is None or (value < self._best if less_is_better else value > self._best)
        self._newest, self._since = value, 0 if better else self._since + 1
        self._best = value if better else self._best


def _value(record: Record, column: str, loss: LossName) -> float:
    """What an evaluation has in a column, NaN if nothing."""
    value: float | None = getattr(record, of_clients(SCORES[loss]).get(column, column), None)
    found = record.measures.get(column, value)
    return nan if found is None else found
