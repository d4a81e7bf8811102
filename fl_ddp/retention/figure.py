"""The plot of what a model knows of each task after each."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from fl_ddp.retention.matrix import Matrix

_MOST_NUMBERS = 12
"""Tasks up to which cells are labelled."""


def task_figure(matrix: Matrix) -> Figure:
    """A heat map of accuracies; a row is the task trained last, row 0 the initial model, a column the task tested on.

    Cells of tasks that were still to come are pale.
    """
    tasks = max(map(len, matrix.values()), default=1)
    rows = sorted(matrix)
    share = np.full((len(rows), tasks), np.nan)
    for at, row in enumerate(rows):
        share[at, : len(matrix[row])] = matrix[row]
    ahead = np.arange(1, tasks + 1) > np.array(rows)[:, None]
    width, height = max(2.6, 0.46 * tasks + 0.6), max(2.0, 0.36 * len(rows) + 0.4)
    figure = Figure(figsize=(width + 1.3, height + 0.8), layout="compressed")
    axes = figure.add_subplot()
    image = axes.imshow(share, vmin=0, vmax=1, cmap="Blues", alpha=np.where(ahead, 0.35, 1.0), aspect="auto")
    bar = figure.colorbar(image, ax=axes, shrink=0.9, label="accuracy", format=PercentFormatter(1))
    bar.outline.set_visible(False)
    axes.set(xlabel="tested on task", ylabel="after task")
    axes.set_xticks(range(tasks), [str(task) for task in range(1, tasks + 1)])
    axes.set_yticks(range(len(rows)), [str(row) if row else "none" for row in rows])
    axes.tick_params(length=0)
    axes.spines[:].set_color("#cccccc")
    if tasks <= _MOST_NUMBERS:
        for row, column in np.argwhere(~np.isnan(share)):
            dark = share[row, column] > 0.5 and not ahead[row, column]
            text = f"{100 * share[row, column]:.0f}"
            axes.text(column, row, text, ha="center", va="center", fontsize=7.5, color="white" if dark else "black")
    return figure
