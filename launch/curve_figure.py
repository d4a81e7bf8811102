"""Curves over rounds: a line for the mean of each group, a band for the spread over its seeds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from launch.figure_style import GREY, MOST_COLOURS, legend, panels
from launch.groups import Group, Grouping, in_order
from launch.metric import Metric, quantity_name, smoothed
from launch.series import Series, series
from launch.spread import spread

_MOST_PANELS = 9

Line = tuple[list[int], list[float], list[float]]
"""Rounds, means and standard deviations, in percent."""


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
        place.set_ylabel(f"{quantity_name(metric)} (%)")
        place.label_outer(remove_inner_ticks=False)
    if len(set(named.labels.values())) > 1:
        legend(figure, named.title, named.entries())
    return figure


def _draw(axes: Axes, lines: Mapping[Group, Line], named: Series) -> None:
    for group, (rounds, means, deviations) in lines.items():
        shade = named.shade(group)
        behind = shade == GREY
        axes.plot(rounds, means, color=shade, zorder=1 if behind else 3, linewidth=0.7 if behind else None)
        if any(deviations) and not behind:
            low, high = ([m + sign * d for m, d in zip(means, deviations, strict=True)] for sign in (-1, 1))
            axes.fill_between(rounds, low, high, color=shade, alpha=0.2, linewidth=0, zorder=2)
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    axes.margins(x=0.02)


def _line(group: Group, metric: Metric) -> Line | None:
    """Mean and spread over the runs that count, in the rounds that all of them have evaluated."""
    curves = [run.curves[metric.quantity] for run in group.counted if run.curves.get(metric.quantity)]
    if not curves:
        return None
    by_round = [dict(zip([r for r, _ in curve], smoothed(metric, curve), strict=True)) for curve in curves]
    rounds = sorted(set.intersection(*(set(values) for values in by_round)))
    if not rounds:
        return None
    values = [[100 * each[r] for each in by_round] for r in rounds]
    return rounds, [statistics.fmean(each) for each in values], [spread(each) or 0.0 for each in values]


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
