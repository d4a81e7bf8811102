"""Which groups get a colour of their own in a plot, and what it is called."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from matplotlib.lines import Line2D

from launch.compare.figure_style import GREY, MARKERS, MOST_COLOURS, colours
from launch.compare.groups import Group, Grouping, as_number
from launch.run.metric import Metric
from launch.run.spread import mean


@dataclass(frozen=True)
class Series:
    """Names and colours of the groups of a plot.

    Attributes:
        title: what the names are values of.
        labels: name of each group's series.
        shades: colour of each series that has one of its own; the others are grey.
    """

    title: str
    labels: Mapping[Group, str]
    shades: Mapping[str, str]

    def shade(self, group: Group) -> str:
        """The colour of a group."""
        return self.shades.get(self.labels[group], GREY)

    def marker(self, name: str) -> str:
        """The marker of a series."""
        return dict(zip(self.shades, MARKERS, strict=False)).get(name, ".")

    def entries(self, line: Literal["-", ""] = "-", *, markers: bool = False) -> list[Line2D]:
        """The lines of a legend, in their style, with markers or without."""
        others = len(set(self.labels.values())) - len(self.shades)
        shades = {**self.shades, **({f"{others} others": GREY} if others else {})}
        return [
            Line2D([], [], color=shade, label=name, linestyle=line, marker=self.marker(name) if markers else None)
            for name, shade in shades.items()
        ]


def series(grouping: Grouping, groups: Sequence[Group], metric: Metric, without: int | None) -> Series:
    """Name the groups by the values of all keys but one; where there are too many names, the best ones have colours.

    Args:
        grouping: with the keys.
        groups: of the plot.
        metric: that says which are best.
        without: index of the key that the plot shows otherwise.
    """
    left = [index for index in range(len(grouping.keys)) if index != without]
    alone = len(left) == 1
    labels = {
        group: ", ".join(group.values[i] or "-" if alone else f"{grouping.names[i]}={group.values[i]}" for i in left)
        for group in groups
    }
    names = list(dict.fromkeys(labels.values()))
    title = grouping.names[left[0]] if alone else ""
    if len(names) <= MOST_COLOURS:
        ordered = alone and all(as_number(group.values[left[0]]) is not None for group in groups)
        return Series(title, labels, colours(names, ordered=ordered))
    return Series(title, labels, colours(_best(labels, metric), ordered=False))


def _best(labels: Mapping[Group, str], metric: Metric) -> list[str]:
    """The names of the best groups, the best one first."""
    sign = -1 if metric.less_is_better else 1
    scores: dict[str, float] = {}
    for group, name in labels.items():
        value = mean(group.numbers(metric))
        score = -math.inf if value is None or math.isinf(value) else sign * value
        scores[name] = max(scores.get(name, -math.inf), score)
    return sorted(scores, key=lambda name: -scores[name])[:MOST_COLOURS]
