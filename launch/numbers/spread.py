"""Mean and spread of one number over runs that differ in their seeds alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Sequence

from launch.numbers.reading import Reading, reached, values_of

DIGITS = {"percent": 2, "dB": 2, "rounds": 0, "MB": 1, "s": 1, "ratio": 3, "number": 4}
"""Digits behind the point, by the unit of a metric."""
UNLIMITED = -math.inf, math.inf


def mean(values: Collection[float]) -> float | None:
    """Their mean; None of none, and where infinities of both signs, or their size, leave no number."""
    try:
        found = statistics.fmean(values)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(found) else found


def drawn_mean(values: Collection[float]) -> float:
    """Their mean; nan, which plots leave out, where there is none."""
    found = mean(values)
    return math.nan if found is None else found


def spread(values: Collection[float]) -> float | None:
    """Their standard deviation, of two at least; none if one is infinite."""
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else None


def ends(
    means: Sequence[float], deviations: Sequence[float], limits: tuple[float, float]
) -> tuple[list[float], list[float]]:
    """One deviation below and above each mean, as far as there are such values."""
    least, most = limits
    both = list(zip(means, deviations, strict=True))
    return [max(m - d, least) for m, d in both], [min(m + d, most) for m, d in both]


def spread_of(readings: Collection[Reading]) -> float | None:
    """Their standard deviation, of two at least; none if one missed its target."""
    return spread(values_of(readings)) if reached(readings) == len(readings) else None


def shown(value: float, unit: str) -> str:
    """One number as text."""
    return f"{value:.{DIGITS[unit]}f}"


def with_spread(readings: Collection[Reading], unit: str) -> str:
    """Mean and spread as text; where some missed their target, the least that the mean can be."""
    middle, deviation = mean(values_of(readings)), spread_of(readings)
    if middle is None:
        return "-"
    number, few = len(readings), reached(readings)
    if not few:
        return "not reached" + (f" by any of {number}" if number > 1 else "")
    digits = DIGITS[unit] if number == 1 else max(DIGITS[unit], 1)
    if few < number:
        return f">= {middle:.{digits}f} ({few} of {number} reach it)"
    return f"{middle:.{digits}f}" + ("" if deviation is None else f" ± {deviation:.{digits}f}")
