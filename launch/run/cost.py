"""What rounds cost, which curves may be drawn over: bytes that all clients sent and received, or seconds."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from typing import Literal

from launch.run.stored import Run

Cost = Literal["traffic", "time"]
"""What curves are drawn over beside rounds."""

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


def unit_of(cost: Cost, most: float) -> tuple[str, float]:
    """Name and size of the unit of an axis that reaches so many bytes or seconds."""
    units = _UNITS[cost]
    fitting = [name for name, size in units.items() if most >= _FEWEST * size]
    name = fitting[-1] if fitting else next(iter(units))
    return name, units[name]
