"""Tasks one after the other: the accuracy on each over rounds, and what is left of each at the end."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fl_ddp.errors import ConfigError
from launch.compare.replicates import Design, Replicates
from launch.numbers.metric import parse_metric
from launch.numbers.spread import spread
from launch.plots.class_figure import panel_title
from launch.plots.curve_figure import draw_curve, mean_curve
from launch.plots.figure_style import GREY, MOST_PANELS, colours, legend, over_rounds, panels, titled
from launch.run.task_curves import ON_TASK

_WIDTH = 0.8
"""Of a task's bars together, where tasks are 1 apart."""


def task_figure(design: Design) -> Figure:
    """A panel for each setting: a line for each task from when it is trained, the mean over seeds with its band.

    Where the next task begins there is a thin line.

    Raises:
        ConfigError: no run has tasks, or there are more than nine settings.
    """
    shown = _shown(design)
    tasks = _tasks(shown)
    shades = colours([str(task) for task in tasks], ordered=True)
    figure, axes = panels(len(shown))
    if design.keys:
        titled(figure, axes, [panel_title(design, each) for each in shown])
    for place, replicates in zip(axes, shown, strict=True):
        for task in tasks:
            if curve := mean_curve(replicates, parse_metric(f"final of {ON_TASK}{task}")):
                draw_curve(place, curve, shades[str(task)])
        for begin in _begins(replicates)[1:]:
            place.axvline(begin, color=GREY, linewidth=0.6, zorder=0)
        over_rounds(place)
        place.set_ylim(0, 100)
        place.set_ylabel("accuracy (%)")
        place.label_outer(remove_inner_ticks=False)
    legend(figure, "task", [Line2D([], [], color=shade, label=task) for task, shade in shades.items()])
    return figure


def task_end_figure(design: Design) -> Figure:
    """Bars of the last accuracy on each task and of their average, side by side for all settings; means over seeds.

    Raises:
        ConfigError: as task_figure().
    """
    shown = _shown(design)
    names = [panel_title(design, each).replace("\n", " ") or "accuracy" for each in shown]
    shades = colours(names, ordered=False)
    of_tasks = [f"{ON_TASK}{task}" for task in _tasks(shown)]
    figure = Figure(figsize=(max(4.2, 0.16 * len(shown) * (len(of_tasks) + 1) + 2.2), 2.6), layout="constrained")
    axes = figure.subplots()
    for index, (replicates, name) in enumerate(zip(shown, names, strict=True)):
        _bars(axes, replicates, [*of_tasks, "average_accuracy"], index, len(shown), shades[name])
    labels = [*(f"task {name.removeprefix(ON_TASK)}" for name in of_tasks), "average"]
    axes.set_xticks(range(len(labels)), labels)
    axes.tick_params("x", length=0)
    axes.set_ylim(0, 100)
    axes.set_ylabel("accuracy after the last round (%)")
    if len(shown) > 1:
        legend(figure, "", [Line2D([], [], color=shades[name], label=name, linewidth=5) for name in names])
    return figure


def _bars(axes: Axes, replicates: Replicates, quantities: Sequence[str], index: int, number: int, shade: str) -> None:
    width = _WIDTH / number
    places = np.arange(len(quantities)) + (index - (number - 1) / 2) * width
    ends = [[100 * curve[-1][1] for run in replicates.compared if (curve := run.curve(name))] for name in quantities]
    means = [statistics.fmean(values) if values else math.nan for values in ends]
    axes.bar(places, means, 0.9 * width, color=shade)
    axes.errorbar(
        places, means, [spread(values) or 0.0 for values in ends], fmt="none", ecolor="#444444", elinewidth=0.7
    )


def _shown(design: Design) -> list[Replicates]:
    shown = [each for each in design.sets if any(run.has_tasks for run in each.counted)]
    if not shown:
        raise ConfigError(
            "--tasks", "no run has tasks with test samples of their own", "runs with --stream, say Permuted"
        )
    if len(shown) > MOST_PANELS:
        raise ConfigError("--tasks", f"there are {len(shown)} settings", f"{MOST_PANELS} at most")
    return shown


def _tasks(shown: Sequence[Replicates]) -> list[int]:
    names = {name for each in shown for run in each.counted for name in run.curves if name.startswith(ON_TASK)}
    return sorted(int(name.removeprefix(ON_TASK)) for name in names)


def _begins(replicates: Replicates) -> list[int]:
    """The first round of each task, which comes after the last evaluated one of the task before."""
    curves = replicates.counted[0].curves if replicates.counted else {}
    tested = [curve for name, curve in curves.items() if name.startswith(ON_TASK) and curve]
    firsts, rounds = {curve[0][0] for curve in tested}, {r for curve in tested for r, _ in curve}
    return sorted(1 + max((r for r in rounds if r < first), default=0) for first in firsts)
