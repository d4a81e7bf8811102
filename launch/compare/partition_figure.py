"""Who holds what: the clients' samples by class, settings side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from launch.compare.class_figure import MOST_PANELS, panel_title
from launch.compare.figure_style import INK, legend, panels
from launch.compare.replicates import Design, Replicates
from launch.run.stored import Counts, partition_counts

_LARGEST = 11.0
"""Diameter of the largest bubble, in points."""


def partition_figure(design: Design) -> Figure | None:
    """A panel for each division of the data, of the least seed: bubbles of client x class, their area the samples.

    Settings that divide alike share a panel. Nothing where no run says who holds what, or for more than nine.
    """
    shown: dict[Replicates, Counts] = {}
    for each in design.sets:
        run = min(each.counted, key=lambda run: int(str(run.config["seed"])), default=None)
        counts = partition_counts(run.folder) if run else None
        if counts and counts not in shown.values():
            shown[each] = counts
    if not shown or len(shown) > MOST_PANELS:
        return None
    classes = list(dict.fromkeys(name for run in design.sets[0].counted for name in _classes(run.curves)))
    largest = max(n for counts in shown.values() for client in counts for n in client.values())
    figure, axes = panels(len(shown))
    for place, (replicates, counts) in zip(axes, shown.items(), strict=True):
        _bubbles(place, counts, classes or sorted({name for client in counts for name in client}), largest)
        if len(shown) > 1:
            place.set_title(panel_title(design, replicates))
        place.set_xlabel("client")
        place.set_ylabel("class")
        place.label_outer(remove_inner_ticks=False)
    entries = [_bubble(n, largest) for n in (largest, largest // 2, largest // 10) if n]
    legend(figure, "samples", entries)
    return figure


def _classes(columns: Mapping[str, object]) -> list[str]:
    return [name.partition("/")[2] for name in columns if name.startswith("accuracy/")]


def _diameter(samples: int, largest: int) -> float:
    return _LARGEST * float((samples / largest) ** 0.5)


def _bubble(samples: int, largest: int) -> Line2D:
    size = _diameter(samples, largest)
    return Line2D([], [], linestyle="", marker="o", color=INK, markeredgewidth=0, label=f"{samples:,}", markersize=size)


def _bubbles(axes: Axes, counts: Counts, classes: Sequence[str], largest: int) -> None:
    points = [(k, classes.index(name), n) for k, client in enumerate(counts) for name, n in client.items() if n]
    areas = [max(_diameter(n, largest) ** 2, 1.0) for _, _, n in points]
    axes.scatter([k for k, _, _ in points], [c for _, c, _ in points], s=areas, color=INK, linewidths=0)
    axes.set_yticks(range(len(classes)), classes)
    axes.set_ylim(len(classes) - 0.4, -0.6)
    axes.set_xlim(-0.6, len(counts) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(10, integer=True))
    axes.tick_params(length=0)
