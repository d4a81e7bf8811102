"""When a run ends before its last round: a value is reached, nothing gets better any more, or a callback says so."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite, nan

from fl_ddp.config.settings import Config
from fl_ddp.config.stop_at import FALLING
from fl_ddp.losses.choices import SCORES, LossName
from fl_ddp.results.metrics import Record, of_clients


def reason_to_stop(config: Config, evaluated: Sequence[Record]) -> str | None:
    """Why a run ends after its newest evaluation; None if it goes on.

    A function of the rounds in metrics.csv alone, so that a run that goes on decides as one that was never interrupted.
    Rounds in which nobody trained, the initial model's among them, do not count.

    Args:
        config: its stop_at and its patience count.
        evaluated: records of the evaluated rounds, in their order.
    """
    if config.stop_at is None and config.patience is None:
        return None
    wanted, name = config.good_enough, config.waited_for
    values = [value for record in evaluated if record.cohort and isfinite(value := _value(record, name, config.loss))]
    if not values:
        return None
    if wanted and wanted.reached_by(values[-1]):
        return f"{name} {values[-1]:.4f} has reached {wanted.value:g}"
    best = min(values) if name in FALLING else max(values)
    since = len(values) - 1 - values.index(best)
    if config.patience is not None and since >= config.patience:
        return f"{name} has not been better than {best:.4f} for {since} evaluations"
    return None


def _value(record: Record, column: str, loss: LossName) -> float:
    """What an evaluation has in a column, NaN if nothing."""
    value: float | None = getattr(record, of_clients(SCORES[loss]).get(column, column), None)
    found = record.measures.get(column, value)
    return nan if found is None else found
