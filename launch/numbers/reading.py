"""What a metric reads off one run, a target that was missed included."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """One number of one run.

    Attributes:
        value: percent, rounds or a ratio; of a missed target one round more than the run has, the least it can be.
        missed: whether a target was not reached.
    """

    value: float
    missed: bool = False


def values_of(readings: Collection[Reading]) -> list[float]:
    """The numbers alone."""
    return [each.value for each in readings]


def reached(readings: Collection[Reading]) -> int:
    """How many did not miss a target."""
    return sum(not each.missed for each in readings)


def standing(readings: Collection[Reading], *, less_is_better: bool) -> tuple[float, float]:
    """What sorts readings of several runs, the best ones last: by the share that missed a target, then by the mean.

    Those whose infinite numbers have no mean come before all others.

    Args:
        readings: one at least.
        less_is_better: whether small numbers, and so targets that are reached, are good.
    """
    sign, number = -1 if less_is_better else 1, len(readings)
    middle = sign * sum(values_of(readings)) / number
    return sign * (number - reached(readings)) / number, -math.inf if math.isnan(middle) else middle
