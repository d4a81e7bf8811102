"""What an evaluation must reach for a run to end before its last round."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from fl_ddp.config.options import meant
from fl_ddp.errors import ConfigError
from fl_ddp.losses.choices import ERRORS, MEASURES, R2, SCORES

_OWN = ("initial", "personalised")
NAMES: Mapping[str, tuple[str, ...]] = {
    loss: (*((score,) if score == "accuracy" else ()), "loss", *MEASURES[loss], *(f"{own}_{score}" for own in _OWN))
    for loss, score in SCORES.items()
}
"""Columns of metrics.csv that an evaluation fills, by --loss; the first is what a run waits for if none is named."""
FALLING = (*ERRORS, *(f"{own}_{score}" for own in _OWN for score in SCORES.values() if score in ERRORS))
"""Those of which less is better."""


class StopAt(NamedTuple):
    """A column of metrics.csv, and the value from which on it is good enough."""

    name: str
    value: float

    def reached_by(self, value: float) -> bool:
        """Whether a value is as good."""
        return value <= self.value if self.name in FALLING else value >= self.value


def read_stop_at(text: str, loss: str) -> StopAt:
    """What --stop_at says in a run of a --loss.

    Raises:
        ConfigError: it is not of the form name=value, or the name is unknown.
    """
    name, _, value = (part.strip() for part in text.partition("="))
    names = NAMES[loss]
    if name not in names:
        what = f"{text}: {name or 'nothing'} is unknown with --loss {loss}; {meant(name, names)}"
        raise ConfigError("--stop_at", what, f"{names[0]}=0.9")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError("--stop_at", f"{text}: {value or 'nothing'} is no number", f"{name}=0.9")
    if name in FALLING and number < 0:
        raise ConfigError("--stop_at", f"{text}: {name} is never below 0", f"{name}=0.1")
    if (name not in FALLING and number > 1) or (number <= 0 and name not in (*FALLING, R2)):
        raise ConfigError("--stop_at", f"{text} is impossible or always so", f"{name}=0.9, above 0 and at most 1")
    return StopAt(name, number)
