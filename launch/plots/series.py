"""Which replicates get a colour of their own in a plot, and what it is called."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.lines import Line2D

from launch.compare.replicates import Design, Replicates, as_number
from launch.numbers.metric import Metric
from launch.numbers.reading import standing
from launch.plots.figure_style import GREY, MARKERS, MOST_COLOURS, colours

MOST_LINES = 2 * MOST_COLOURS
"""Names in a plot whose lines may be dashed."""


@dataclass(frozen=True)
class Series:
    """Names and colours in a plot.

    Attributes:
        title: what the names are values of.
        labels: name of the series that replicates belong to.
        shades: colour of each series that has one; the others are grey.
        dashed: series whose colour another one has, too.
    """

    title: str
    labels: Mapping[Replicates, str]
    shades: Mapping[str, str]
    dashed: Collection[str] = ()

    def shade(self, replicates: Replicates) -> str:
        """The colour of replicates."""
        return self.shades.get(self.labels[replicates], GREY)

    def style(self, name: str) -> Literal["-", "--"]:
        """How the line of a series is drawn."""
        return "--" if name in self.dashed else "-"

    def marker(self, name: str) -> str:
        """The marker of a series."""
        return dict(zip(self.shades, MARKERS, strict=False)).get(name, ".")

    def entries(self, line: Literal["-", ""] = "-", *, markers: bool = False) -> list[Line2D]:
        """The lines of a legend, in their style, with markers or without."""
        others = len(set(self.labels.values())) - len(self.shades)
        shades = {**self.shades, **({f"{others} others": GREY} if others else {})}
        return [
            Line2D(
                [],
                [],
                color=shade,
                label=name,
                linestyle=line and self.style(name),
                marker=self.marker(name) if markers else None,
            )
            for name, shade in shades.items()
        ]


def series(
    design: Design, sets: Sequence[Replicates], metric: Metric, without: int | None, *, dashed: bool = False
) -> Series:
    """Name replicates by the values of all keys but one; where there are too many names, the best ones have colours.

    Args:
        design: with the keys.
        sets: of the plot.
        metric: that says which are best.
        without: index of the key that the plot shows otherwise.
        dashed: whether lines may be, so that twice as many have colours.
    """
    left = [index for index in range(len(design.keys)) if index != without]
    alone = len(left) == 1
    labels = {}
    for each in sets:
        values = {design.names[i]: design.written[i][each.values[i]] for i in left}
        said = [value if alone else f"{name}={value}" for name, value in values.items() if value]
        labels[each] = ", ".join(said) or "-"
    names = list(dict.fromkeys(labels.values()))
    title = design.names[left[0]] if alone else ""
    if len(names) <= MOST_COLOURS:
        ordered = alone and all(as_number(each.values[left[0]]) is not None for each in sets)
        return Series(title, labels, colours(names, ordered=ordered))
    if dashed and len(names) <= MOST_LINES:
        second = names[MOST_COLOURS:]
        shades = colours(names[:MOST_COLOURS], ordered=False) | colours(second, ordered=False)
        return Series(title, labels, shades, second)
    return Series(title, labels, colours(_best(labels, metric), ordered=False))


def _best(labels: Mapping[Replicates, str], metric: Metric) -> list[str]:
    """The names of the best replicates, the best ones first."""
    scores: dict[str, tuple[float, float]] = {}
    for replicates, name in labels.items():
        readings = replicates.numbers(metric)
        score = standing(readings, less_is_better=metric.less_is_better) if readings else (-math.inf, -math.inf)
        scores[name] = max(scores.get(name, score), score)
    return sorted(scores, key=scores.__getitem__, reverse=True)[:MOST_COLOURS]
