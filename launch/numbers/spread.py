"""Mean and spread of one number over runs that differ in their seeds alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection

DIGITS = {"percent": 2, "rounds": 0, "ratio": 3}
"""Digits behind the point, by the unit of a metric."""


def mean(values: Collection[float]) -> float | None:
    """Their mean; infinite if one is: a run did not reach its target."""
    return statistics.fmean(values) if values else None


def spread(values: Collection[float]) -> float | None:
    """Their standard deviation, of two at least; none if one is infinite."""
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def shown(value: float, unit: str) -> str:
    """One number as text."""
    return "not reached" if math.isinf(value) else f"{value:.{DIGITS[unit]}f}"


def with_spread(values: Collection[float], unit: str) -> str:
    """Mean and spread as text."""
    middle, deviation = mean(values), spread(values)
    if middle is None:
        return "-"
    if math.isinf(middle):
        missed = sum(map(math.isinf, values))
        return "not reached" + (f" by {missed} of {len(values)}" if len(values) > 1 else "")
    if deviation is None:
        return shown(middle, unit)
    digits = max(DIGITS[unit], 1)
    return f"{middle:.{digits}f} ± {deviation:.{digits}f}"
