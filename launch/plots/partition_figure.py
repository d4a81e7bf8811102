"""Who holds what: the clients' samples by class, settings side by side."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fl_ddp.errors import ConfigError
from launch.compare.replicates import Design, Replicates
from launch.plots.class_figure import panel_title
from launch.plots.figure_style import INK, MOST_PANELS, legend, panels, titled
from launch.run.stored import Counts, partition_counts

_LARGEST = 11.0
"""Diameter of the largest bubble, in points, where the rows are that far apart."""
_ROW, _MOST, _AROUND, _NAME = 0.16, 6.0, 0.5, 0.13
"""Inches of a row, of all of them at most, of what is around them, and of a class's name."""


class Division(NamedTuple):
    """Who holds what, and the classes in their order."""

    counts: Counts
    classes: tuple[str, ...]


def partition_figure(design: Design) -> Figure:
    """A panel for each division of the data, of the least seed: bubbles of client x class, their area the samples.

    Settings that divide alike share a panel.

    Raises:
        ConfigError: no run says who holds what, or there are more than nine divisions.
    """
    shown: dict[Replicates, Division] = {}
    for each in design.sets:
        run = min(each.counted, key=lambda run: run.seed, default=None)
        counts = partition_counts(run.folder) if run else None
        if run and counts and not any(counts == other.counts for other in shown.values()):
            shown[each] = Division(counts, _classes(run.curves, counts))
    if not shown:
        raise ConfigError("--partitions", "no run's partition.json has counts", "runs of this version")
    if len(shown) > MOST_PANELS:
        raise ConfigError("--partitions", f"there are {len(shown)} divisions", f"{MOST_PANELS} at most")
    largest = max(n for division in shown.values() for client in division.counts for n in client.values())
    alike = len({division.classes for division in shown.values()}) == 1
    rows = max(len(division.classes) for division in shown.values())
    figure, axes = panels(len(shown), alike=alike, least=min(_ROW * rows, _MOST) + _AROUND)
    if len(shown) > 1:
        titled(figure, axes, [panel_title(design, each) for each in shown])
    widest = min(_LARGEST, 72 * min(_ROW, _MOST / rows))
    for place, division in zip(axes, shown.values(), strict=True):
        _bubbles(place, division, widest**2 / largest)
        place.set_xlabel("client")
        place.set_ylabel("class")
        if alike:
            place.label_outer(remove_inner_ticks=False)
    entries = [_bubble(n, widest**2 / largest) for n in (largest, largest // 2, largest // 10) if n]
    legend(figure, "samples", entries)
    return figure


def _classes(columns: Iterable[str], counts: Counts) -> tuple[str, ...]:
    """In the order of metrics.csv, then those that were never tested."""
    tested = [name.partition("/")[2] for name in columns if name.startswith("accuracy/")]
    return tuple(dict.fromkeys([*tested, *(name for client in counts for name in client)]))


def _bubble(samples: int, area: float) -> Line2D:
    size = (samples * area) ** 0.5
    return Line2D([], [], linestyle="", marker="o", color=INK, markeredgewidth=0, label=f"{samples:,}", markersize=size)


def _bubbles(axes: Axes, division: Division, area: float) -> None:
    """Draw bubbles of so many square points a sample."""
    counts, classes = division
    points = [(k, classes.index(name), n) for k, client in enumerate(counts) for name, n in client.items() if n]
    areas = [max(n * area, 1.0) for _, _, n in points]
    axes.scatter([k for k, _, _ in points], [c for _, c, _ in points], s=areas, color=INK, linewidths=0, clip_on=False)
    every = ceil(_NAME * len(classes) / _MOST)
    axes.set_yticks(range(0, len(classes), every), classes[::every])
    axes.set_ylim(len(classes) - 0.4, -0.6)
    axes.set_xlim(-0.6, len(counts) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.tick_params(length=0)
