"""All plots of runs side by side: which are drawn, and their files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from matplotlib.figure import Figure

from fl_ddp.host.atomic_file import writing
from launch.compare.replicates import Design
from launch.numbers.metric import Cost, Metric
from launch.plots.class_figure import class_figure
from launch.plots.client_figure import class_of_client_figure, client_figure
from launch.plots.curve_figure import curve_figure
from launch.plots.figure_style import paper_style, save
from launch.plots.metric_figure import metric_figure
from launch.plots.partition_figure import partition_figure
from launch.plots.task_figure import task_end_figure, task_figure


@dataclass(frozen=True)
class Beside:
    """What is to be drawn beside curves and the metric over each option.

    Attributes:
        classes: each class's accuracy over rounds.
        partitions: who holds what.
        tasks: accuracy on each task, over rounds and at the end.
        client: the forgetting degrees of this client's classes.
        of_class: with client, this class's alone.
    """

    classes: bool = False
    partitions: bool = False
    tasks: bool = False
    client: int | None = None
    of_class: str | None = None


def write_figures(
    design: Design, metric: Metric, over: Cost | None, beside: Mapping[str, Figure], out: Path
) -> list[str]:
    """Write all plots, and remove those over options that no longer vary; the names of the .png files.

    Args:
        design: the runs.
        metric: that is drawn.
        over: draw its curves over this cost, too.
        beside: further plots by name.
        out: the folder.

    Raises:
        RunError: one cannot be written.
    """
    with paper_style():
        figures: dict[str, Figure | None] = {"curves": curve_figure(design, metric)}
        if over:
            figures[f"curves_over_{over}"] = curve_figure(design, metric, over)
        figures |= beside
        for index, key in enumerate(design.keys):
            figures[f"metric_over_{key}"] = metric_figure(design, index, metric)
        names = [save(figure, out / stem) for stem, figure in figures.items() if figure]
    stems = {Path(name).stem for name in names}
    with writing(out):
        for old in (path for ending in ("png", "svg") for path in out.glob(f"metric_over_*.{ending}")):
            if old.stem not in stems:
                old.unlink()
    return names


@paper_style()
def figures_beside(design: Design, beside: Beside) -> dict[str, Figure]:
    """The plots that were asked for, by name.

    Raises:
        ConfigError: one has nothing to show.
    """
    found = {}
    if beside.classes:
        found["classes"] = class_figure(design)
    if beside.partitions:
        found["partitions"] = partition_figure(design)
    if beside.tasks:
        found |= {"tasks_by_round": task_figure(design), "tasks_end": task_end_figure(design)}
    if beside.client is not None and beside.of_class is None:
        found[f"client_{beside.client}"] = client_figure(design, beside.client)
    if beside.client is not None and beside.of_class is not None:
        name = re.sub(r"[^\w.-]+", "_", beside.of_class)
        found[f"client_{beside.client}_{name}"] = class_of_client_figure(design, beside.client, beside.of_class)
    return found
