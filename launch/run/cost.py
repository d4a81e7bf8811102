"""What rounds cost, which curves may be drawn over: bytes that all clients sent and received, or seconds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

from launch.numbers.metric import Cost, Metric
from launch.numbers.read_off import read_off
from launch.numbers.reading import Reading
from launch.run.stored import Run

_UNITS: Mapping[Cost, Mapping[str, float]] = {
    "traffic": {"MB": 1e6, "GB": 1e9, "TB": 1e12},
    "time": {"s": 1, "min": 60, "h": 3600},
}
_FEWEST = 10
"""Of a larger unit, at the right end of an axis."""


def cost_so_far(run: Run, cost: Cost) -> dict[int, float]:
    """Bytes or seconds of all rounds up to each that a run has finished."""
    if cost == "time":
        of_round = dict(run.time)
    else:
        up, down = (dict(run.curves.get(f"traffic_{way}_bytes", ())) for way in ("up", "down"))
        of_round = {number: up[number] + down[number] for number in up.keys() & down.keys()}
    rounds = sorted(of_round)
    return dict(zip(rounds, accumulate(of_round[number] for number in rounds), strict=True))


def read_off_run(metric: Metric, run: Run, ended: bool) -> Reading | None:
    """As read_off() of the curve of a run, and of rounds to a target what they cost, if that is asked for.

    Of a target that was missed it is what all rounds cost, the least it can be.
    """
    found = read_off(metric, run.curve(metric.quantity), ended)
    if found is None or metric.cost is None:
        return found
    costs = cost_so_far(run, metric.cost)
    cost = costs.get(max(costs, default=0) if found.missed else int(found.value))
    return None if cost is None else Reading(cost / _UNITS[metric.cost][metric.unit], found.missed)


def unit_of(cost: Cost, most: float) -> tuple[str, float]:
    """Name and size of the unit of an axis that reaches so many bytes or seconds."""
    units = _UNITS[cost]
    fitting = [name for name, size in units.items() if most >= _FEWEST * size]
    name = fitting[-1] if fitting else next(iter(units))
    return name, units[name]
