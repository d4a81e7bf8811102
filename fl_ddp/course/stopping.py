"""When a run ends before its last round: a value is reached, nothing gets better any more, or a callback says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fl_ddp.config.settings import Config
from fl_ddp.config.stop_at import FALLING
from fl_ddp.results.metrics import Record

Callback = Callable[[Record], object]
"""Sees the record of each round, round 0 too if it has one; the run ends after a round for which it returns True."""


def reason_to_stop(config: Config, evaluated: Sequence[Record]) -> str | None:
    """Why a run ends after its newest evaluation; None if it goes on.

    A function of the rounds in metrics.csv alone, so that a run that goes on decides as one that was never interrupted.

    Args:
        config: its stop_at and its patience count.
        evaluated: records of the evaluated rounds, in their order.
    """
    wanted, name = config.good_enough, config.waited_for
    values = [value for record in evaluated if record.round and (value := _value(record, name)) is not None]
    if not values:
        return None
    if wanted and wanted.reached_by(values[-1]):
        return f"{name} {values[-1]:.4f} has reached {wanted.value:g}"
    best = min(values) if name in FALLING else max(values)
    since = len(values) - 1 - values.index(best)
    if config.patience is not None and since >= config.patience:
        return f"{name} has not been better than {best:.4f} for {since} evaluations"
    return None


def _value(record: Record, column: str) -> float | None:
    """What an evaluation has in a column; where clients are measured by an error, a record has it for accuracy."""
    value: float | None = getattr(record, column.replace("_mae", "_accuracy"), None)
    return record.measures.get(column, value)
