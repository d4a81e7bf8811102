"""Curves over rounds: a line for the mean of replicates, a band for their spread."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from launch.compare.replicates import Design, Replicates, in_order
from launch.numbers.metric import Cost, Metric, curve_name, with_sign
from launch.numbers.read_off import smoothed
from launch.numbers.spread import drawn_mean, ends, spread
from launch.plots.class_figure import value_title
from launch.plots.figure_style import GREY, MOST_COLOURS, MOST_PANELS, legend, over_cost, over_rounds, panels, titled
from launch.plots.series import MOST_LINES, series
from launch.run.cost import cost_so_far, unit_of

_METHOD = "method"


@dataclass(frozen=True)
class MeanCurve:
    """The curve of replicates, in percent, or in dB.

    Attributes:
        places: rounds that one of the runs has evaluated, up to the last common one only those that all have; or what
            these had cost, as a mean over the runs.
        means: over the runs that have evaluated the round.
        deviations: their spread, in the common rounds, which come first.
        limits: what a value can be, the least and the most.
    """

    places: Sequence[float]
    means: list[float]
    deviations: list[float]
    limits: tuple[float, float]


def curve_figure(design: Design, metric: Metric, over: Cost | None = None) -> Figure | None:
    """Plot the curves that a metric is read from, over rounds or what they cost; nothing if there are none yet.

    Up to eight curves share one plot. More are spread over a panel for each value of one key, if there is one that
    helps. Of more than eight in a panel eight others are dashed, and of more than sixteen the best eight have colours.

    Args:
        design: of the runs.
        metric: whose quantity and smoothing are drawn.
        over: the cost; None draws over rounds.
    """
    curves = {each: curve for each in design.sets if (curve := mean_curve(each, metric, over))}
    if not curves:
        return None
    unit, size = unit_of(over, max(max(curve.places) for curve in curves.values())) if over else ("", 1.0)
    split = _panel_key(design, list(curves))
    titles = [""] if split is None else sorted({each.values[split] for each in curves}, key=in_order)
    named = series(design, list(curves), metric, split, dashed=True)
    figure, axes = panels(len(titles))
    if split is not None:
        titled(figure, axes, [value_title(design, split, title) for title in titles])
    for place, title in zip(axes, titles, strict=True):
        for replicates, curve in curves.items():
            if split is None or replicates.values[split] == title:
                scaled = replace(curve, places=[x / size for x in curve.places]) if over else curve
                draw_curve(place, scaled, named.shade(replicates), named.style(named.labels[replicates]))
        if over:
            over_cost(place, over, unit)
        else:
            over_rounds(place)
        place.set_ylabel(with_sign(curve_name(metric), metric))
        place.label_outer(remove_inner_ticks=False)
    if len(set(named.labels.values())) > 1:
        legend(figure, named.title, named.entries())
    return figure


def draw_curve(axes: Axes, curve: MeanCurve, shade: str, line: str = "-") -> None:
    """Draw a curve with its band, its line dotted where only some seeds are yet."""
    common = len(curve.deviations)
    behind = shade == GREY
    order, width = (1, 0.7) if behind else (3, None)
    # the second part begins where the first one ends
    for style, first, end in ((line, 0, common), (":", max(common - 1, 0), len(curve.places))):
        places, means = curve.places[first:end], curve.means[first:end]
        if style == ":" and len(curve.places) == common:
            continue
        marker = "." if len(places) == 1 else None
        axes.plot(places, means, color=shade, linestyle=style, marker=marker, zorder=order, linewidth=width)
    if any(curve.deviations) and not behind:
        _band(axes, curve, shade)


def _band(axes: Axes, curve: MeanCurve, shade: str) -> None:
    """One standard deviation to both sides, in the rounds that all runs have, as far as there are such values."""
    common = len(curve.deviations)
    places, (low, high) = curve.places[:common], ends(curve.means[:common], curve.deviations, curve.limits)
    if common > 1:
        axes.fill_between(places, low, high, color=shade, alpha=0.2, linewidth=0, zorder=2)
    else:
        axes.vlines(places, low, high, color=shade, alpha=0.4, zorder=2)


def mean_curve(replicates: Replicates, metric: Metric, over: Cost | None = None) -> MeanCurve | None:
    """Mean and spread over the runs that count, and then the mean of those that are further."""
    read = [(run, curve) for run in replicates.counted if (curve := run.curve(metric.quantity))]
    if not read:
        return None
    by_round = [dict(zip([r for r, _ in curve], smoothed(metric, curve), strict=True)) for _, curve in read]
    common = sorted(set.intersection(*map(set, by_round)))
    further = sorted(r for r in set().union(*by_round) if not common or r > common[-1])
    values = [[metric.scale * each[r] for each in by_round if r in each] for r in (*common, *further)]
    means, deviations = [*map(drawn_mean, values)], [spread(each) or 0.0 for each in values[: len(common)]]
    rounds = [*common, *further]
    if over is None:
        return MeanCurve(rounds, means, deviations, metric.limits)
    costs = [{0: 0.0, **cost_so_far(run, over)} for run, _ in read]
    # runs that are further may have cost less so far
    steps = [statistics.fmean(each[r] - each[q] for each in costs if r in each) for q, r in pairwise([0, *rounds])]
    places = list(accumulate(steps))
    return MeanCurve(places, means, deviations, metric.limits)


def _panel_key(design: Design, sets: Sequence[Replicates]) -> int | None:
    """The key with a panel for each value; none where one plot will do, or no key makes lines few enough.

    All settings have it, and it is not the method: methods are what is compared. Best is one of which all methods have
    each value, then one that leaves eight lines, then that of the fewest panels.
    """
    if len(sets) <= MOST_COLOURS or len(design.keys) < 2:
        return None
    fitting = []
    for index in (index for index, key in enumerate(design.keys) if key != _METHOD):
        values = {each.values[index] for each in sets}
        left = len({each.values[:index] + each.values[index + 1 :] for each in sets})
        if "" not in values and 1 < len(values) <= MOST_PANELS and left <= MOST_LINES:
            fitting.append((_parts_methods(design, sets, index), left > MOST_COLOURS, len(values), index))
    return min(fitting)[-1] if fitting else None


def _parts_methods(design: Design, sets: Sequence[Replicates], key: int) -> bool:
    """Whether a method has not all values of a key."""
    if _METHOD not in design.keys:
        return False
    method = design.keys.index(_METHOD)
    pairs = {(each.values[method], each.values[key]) for each in sets}
    return len(pairs) < len({name for name, _ in pairs}) * len({value for _, value in pairs})
