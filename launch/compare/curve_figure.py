"""Curves over rounds: a line for the mean of each group, a band for the spread over its seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from launch.compare.figure_style import GREY, MOST_COLOURS, legend, panels
from launch.compare.groups import Group, Grouping, in_order
from launch.compare.series import Series, series
from launch.run.metric import Metric, curve_name, smoothed
from launch.run.spread import spread

_MOST_PANELS = 9


@dataclass(frozen=True)
class Line:
    """The course of a group, in percent.

    Attributes:
        rounds: that a run of the group has evaluated, up to the last common one only those that all have.
        means: over the runs that have evaluated the round.
        deviations: their spread, in the common rounds, which come first.
    """

    rounds: list[int]
    means: list[float]
    deviations: list[float]


def curve_figure(grouping: Grouping, metric: Metric) -> Figure | None:
    """Plot the curves that a metric is read from; nothing if there are none yet.

    Up to eight groups share one plot. More are spread over a panel for each value of one key, or, where that does not
    help, the best eight have colours.

    Args:
        grouping: of the runs.
        metric: whose quantity and smoothing are drawn.
    """
    lines = {group: line for group in grouping.groups if (line := _line(group, metric))}
    if not lines:
        return None
    split = _panel_key(grouping, list(lines))
    titles = [""] if split is None else sorted({group.values[split] for group in lines}, key=in_order)
    named = series(grouping, list(lines), metric, split)
    figure, axes = panels(len(titles))
    for place, title in zip(axes, titles, strict=True):
        _draw(place, {g: line for g, line in lines.items() if split is None or g.values[split] == title}, named)
        if split is not None:
            place.set_title(f"{grouping.names[split]} = {title}")
        place.set_xlabel("round")
        place.set_ylabel(f"{curve_name(metric)} (%)")
        place.label_outer(remove_inner_ticks=False)
    if len(set(named.labels.values())) > 1:
        legend(figure, named.title, named.entries())
    return figure


def _draw(axes: Axes, lines: Mapping[Group, Line], named: Series) -> None:
    for group, line in lines.items():
        shade, common = named.shade(group), len(line.deviations)
        behind = shade == GREY
        order, width = (1, 0.7) if behind else (3, None)
        # the second part begins where the first one ends
        for style, first, end in (("-", 0, common), (":", max(common - 1, 0), len(line.rounds))):
            rounds, means = line.rounds[first:end], line.means[first:end]
            if style == ":" and len(line.rounds) == common:
                continue
            marker = "." if len(rounds) == 1 else None
            axes.plot(rounds, means, color=shade, linestyle=style, marker=marker, zorder=order, linewidth=width)
        if any(line.deviations) and not behind:
            _band(axes, line, shade)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    axes.margins(x=0.02)


def _band(axes: Axes, line: Line, shade: str) -> None:
    """One standard deviation to both sides, in the rounds that all runs have."""
    common = len(line.deviations)
    rounds, means = line.rounds[:common], line.means[:common]
    low, high = ([m + sign * d for m, d in zip(means, line.deviations, strict=True)] for sign in (-1, 1))
    if common > 1:
        axes.fill_between(rounds, low, high, color=shade, alpha=0.2, linewidth=0, zorder=2)
    else:
        axes.vlines(rounds, low, high, color=shade, alpha=0.4, zorder=2)


def _line(group: Group, metric: Metric) -> Line | None:
    """Mean and spread over the runs that count, and then the mean of those that are further."""
    curves = [run.curves[metric.quantity] for run in group.counted if run.curves.get(metric.quantity)]
    if not curves:
        return None
    by_round = [dict(zip([r for r, _ in curve], smoothed(metric, curve), strict=True)) for curve in curves]
    common = sorted(set.intersection(*map(set, by_round)))
    further = sorted(r for r in set().union(*by_round) if not common or r > common[-1])
    values = [[100 * each[r] for each in by_round if r in each] for r in (*common, *further)]
    means, deviations = map(statistics.fmean, values), [spread(each) or 0.0 for each in values[: len(common)]]
    return Line([*common, *further], list(means), deviations)


def _panel_key(grouping: Grouping, groups: Sequence[Group]) -> int | None:
    """The key whose values make the fewest panels with eight lines at most; none where none does, or one plot will."""
    if len(groups) <= MOST_COLOURS or len(grouping.keys) < 2:
        return None
    fitting = []
    for index in range(len(grouping.keys)):
        number = len({group.values[index] for group in groups})
        left = len({group.values[:index] + group.values[index + 1 :] for group in groups})
        if 1 < number <= _MOST_PANELS and left <= MOST_COLOURS:
            fitting.append((number, index))
    return min(fitting)[1] if fitting else None
