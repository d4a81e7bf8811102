"""What an evaluation must reach for a run to end before its last round."""

from __future__ import annotations

import math
from typing import NamedTuple

from fl_ddp.config.options import meant
from fl_ddp.errors import ConfigError

FALLING = ("loss",)
NAMES = ("accuracy", "loss", "initial_accuracy", "personalised_accuracy")
"""Columns of metrics.csv that an evaluation fills; of those in FALLING less is better."""


class StopAt(NamedTuple):
    """A column of metrics.csv, and the value from which on it is good enough."""

    name: str
    value: float

    def reached_by(self, value: float) -> bool:
        """Whether a value is as good."""
        return value <= self.value if self.name in FALLING else value >= self.value


def read_stop_at(text: str) -> StopAt:
    """What --stop_at says.

    Raises:
        ConfigError: it is not of the form name=value, or the name is unknown.
    """
    name, _, value = (part.strip() for part in text.partition("="))
    if name not in NAMES:
        raise ConfigError("--stop_at", f"{text}: {name or 'nothing'} is unknown; {meant(name, NAMES)}", "accuracy=0.9")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise ConfigError("--stop_at", f"{text}: {value or 'nothing'} is no number", f"{name}=0.9")
    return StopAt(name, number)
