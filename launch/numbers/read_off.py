"""The number that a metric reads off a curve of a run."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate

from launch.numbers.metric import Curve, Metric
from launch.numbers.reading import Reading
from launch.numbers.spread import mean


def read_off(metric: Metric, curve: Curve, ended: bool) -> Reading | None:
    """The number a metric reads off a run, before another row's is brought in.

    Args:
        metric: what is asked for.
        curve: of its quantity.
        ended: whether the run has all its rounds.

    Returns:
        percent, dB or rounds; missed only in a run that has ended; None where the run says nothing yet, or what it
        says is no number.
    """
    rounds, values = [r for r, _ in curve], smoothed(metric, curve)
    if metric.target is not None:
        reached = next((r for r, value in zip(rounds, values, strict=True) if metric.reached_by(value)), None)
        if reached is not None:
            return Reading(reached)
        return Reading(rounds[-1] + 1, missed=True) if ended and rounds else None
    if metric.round is None:
        value = end_of(metric, curve, ended)
        return None if value is None else Reading(metric.scale * value)
    if not rounds or rounds[-1] < metric.round:
        return None
    seen = sum(r <= metric.round for r in rounds)
    return Reading(metric.scale * values[seen - 1]) if seen and not math.isnan(values[seen - 1]) else None


def end_of(metric: Metric, curve: Curve, ended: bool) -> float | None:
    """The value, a fraction or dB, a metric's statistic ends at; None if it is no number, or the run has not ended."""
    value = smoothed(metric, curve)[-1] if ended and curve else math.nan
    return None if math.isnan(value) else value


def smoothed(metric: Metric, curve: Curve) -> list[float]:
    """A curve as a metric's statistic sees it, one value for each evaluated round.

    Bests and means over rounds are of those that have a number, and nan before there is one. An ema is debiased:
    weights w ** (rounds ago), divided by their sum, so rounds without evaluation, or number, only age the rest.
    """
    values = [value for _, value in curve]
    if metric.statistic == "final":
        return values
    if metric.statistic == "last":
        firsts = (bisect_right(curve, r - metric.parameter, key=lambda point: point[0]) for r, _ in curve)
        means = (mean(_numbers(values[first : i + 1])) for i, first in enumerate(firsts))
        return [math.nan if each is None else each for each in means]
    course = _course(metric, [point for point in curve if not math.isnan(point[1])])
    seen = accumulate(not math.isnan(value) for value in values)
    return [course[number - 1] if number else math.nan for number in seen]


def _numbers(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _course(metric: Metric, curve: Curve) -> list[float]:
    """A statistic that is of all rounds up to each, of a curve of numbers."""
    values = [value for _, value in curve]
    if metric.statistic == "best":
        return list(accumulate(values, min if metric.falls else max))
    if metric.statistic == "running_mean":
        return [total / count for count, total in enumerate(accumulate(values), 1)]
    return _ema(metric.parameter, curve)


def _ema(weight: float, curve: Curve) -> list[float]:
    found = []
    total = weights = 0.0
    before = 0
    for now, value in curve:
        aged = weight ** (now - before)
        total, weights, before = aged * total + value, aged * weights + 1, now
        found.append(total / weights)
    return found
