"""A metric over one varied key: means with the spread over seeds, and the seeds; hollow where no run is finished."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from launch.compare.replicates import Design, Replicates, as_number, in_order
from launch.numbers.metric import Metric, quantity_name, with_sign
from launch.numbers.reading import reached, values_of
from launch.numbers.spread import UNLIMITED, drawn_mean, ends, spread
from launch.plots.figure_style import INK, legend, name_ticks, panels
from launch.plots.series import series

_DECADES = 30.0
"""Largest over smallest value from which an axis is logarithmic."""
_MOST_TICKS = 8


def _around(
    names: Sequence[str], known: Sequence[Replicates], key: int, labels: Mapping[Replicates, str]
) -> dict[Replicates, float]:
    """Places on an axis of values without a scale: those that have a value around its tick, in the order of rows."""
    rows, places = list(labels.values()), dict[Replicates, float]()
    for tick, value in enumerate(names):
        here = sorted((each for each in known if each.values[key] == value), key=lambda each: rows.index(labels[each]))
        places |= {each: tick + 0.5 * ((place + 0.5) / len(here) - 0.5) for place, each in enumerate(here)}
    return places


def metric_figure(design: Design, key: int, metric: Metric) -> Figure | None:
    """Plot a metric over the values of a key, a line for each combination of the others; nothing if it has no values.

    Args:
        design: of the runs.
        key: index of the key.
        metric: to show; replicates of which one did not reach its target are left out.
    """
    known = [each for each in design.sets if (found := each.numbers(metric)) and reached(found) == len(found)]
    if not known:
        return None
    numbers = [as_number(replicates.values[key]) for replicates in known]
    numeric = all(number is not None and math.isfinite(number) for number in numbers)
    names = sorted({replicates.values[key] for replicates in known}, key=in_order)
    figure, (axes,) = panels(1)
    named = series(design, known, metric, key)
    rows = list(dict.fromkeys(named.labels.values()))
    places = {each: float(each.values[key]) for each in known} if numeric else _around(names, known, key, named.labels)
    # with one value in each row there is nothing to join, with one row at each value nothing to tell apart
    apart = len(rows) < len(known) or len(names) < len(known)
    for name in rows:
        sets = [each for each in known if named.labels[each] == name]
        shade = named.shade(sets[0]) if apart else INK
        marker = named.marker(name) if apart else "o"
        line = "-" if apart and numeric else ""
        _draw(axes, [places[each] for each in sets], sets, metric, colour=shade, marker=marker, line=line)
    if numeric:
        _scale(axes, sorted({float(replicates.values[key]) for replicates in known}))
    else:
        name_ticks(figure, axes, [design.written[key][name] or "-" for name in names])
    axes.set_xlabel(design.names[key])
    axes.set_ylabel(metric_name(metric))
    if apart and len(rows) > 1:
        legend(figure, named.title, named.entries("-" if numeric else "", markers=True))
    return figure


def metric_name(metric: Metric) -> str:
    """What an axis calls a metric."""
    if metric.target is not None:
        return f"{metric.text} ({metric.unit})" if metric.cost else metric.text
    is_final = metric.statistic == "final" and metric.round is None
    statistic = "final" if is_final else metric.text.partition(" of ")[0]
    return with_sign(f"{statistic} {quantity_name(metric)}", metric)


def _draw(
    axes: Axes,
    places: Sequence[float],
    sets: Sequence[Replicates],
    metric: Metric,
    *,
    colour: str,
    marker: str,
    line: str,
) -> None:
    values = [values_of(each.numbers(metric)) for each in sets]
    means, deviations = [*map(drawn_mean, values)], [spread(each) or 0.0 for each in values]
    axes.plot(places, means, color=colour, linestyle=line, zorder=2)
    # shares have ends, rounds to a target and ratios of shares have none
    low, high = ends(means, deviations, metric.limits if metric.unit == "percent" else UNLIMITED)
    parts = [
        [m - each for m, each in zip(means, low, strict=True)],
        [each - m for m, each in zip(means, high, strict=True)],
    ]
    axes.errorbar(places, means, parts, fmt="none", ecolor=colour, elinewidth=0.8, capsize=2, zorder=2)
    for place, value, replicates in zip(places, means, sets, strict=True):
        filling = colour if replicates.ended else "white"
        axes.plot(place, value, color=colour, marker=marker, markerfacecolor=filling, zorder=3)
    single = [(place, value) for place, each in zip(places, values, strict=True) for value in each if len(each) > 1]
    if single:
        axes.plot(*zip(*single, strict=True), ".", color=colour, alpha=0.4, markersize=3, zorder=2)


def _scale(axes: Axes, values: Sequence[float]) -> None:
    """A logarithmic axis where the values span decades, and ticks at the values where they are few."""
    positive = [value for value in values if value > 0]
    if values[0] >= 0 and positive and positive[-1] / positive[0] >= _DECADES:
        if values[0] == 0:
            axes.set_xscale("symlog", linthresh=positive[0], linscale=0.5)
        else:
            axes.set_xscale("log")
    elif all(value.is_integer() for value in values):
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if len(values) <= _MOST_TICKS:
        axes.xaxis.set_major_locator(FixedLocator(list(values)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_locator(NullLocator())
