"""Plots of results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

_MOST_NUMBERS = 20
"""Classes up to which the cells of a confusion matrix are labelled."""


def confusion_figure(confusion: Sequence[Sequence[int]], classes: Sequence[str]) -> Figure:
    """The confusion matrix: rows are labels, columns predictions, colours the share of a row; a cell of 0 is empty.

    Args:
        confusion: [C, C] numbers of test samples.
        classes: names of the labels, in their order.
    """
    counts = np.asarray(confusion)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    # Small for its letters: TensorBoard shows it in a third of its size.
    size = min(max(1.2 + 0.34 * len(classes), 2.5), 9)
    figure = Figure(figsize=(size + 1.1, size), dpi=150, layout="compressed")
    axes = figure.add_subplot()
    image = axes.imshow(share, vmin=0, vmax=1, cmap="Blues")
    bar = figure.colorbar(image, ax=axes, shrink=0.8, label="share of the class", format=PercentFormatter(1))
    bar.outline.set_visible(False)
    axes.set(xlabel="predicted", ylabel="label")
    axes.tick_params(length=0)
    axes.spines[:].set_color("#cccccc")
    if len(classes) <= _MOST_NUMBERS:
        axes.set_xticks(range(len(classes)), classes, rotation=90 if max(map(len, classes)) > 2 else 0)
        axes.set_yticks(range(len(classes)), classes)
        for row, column in np.argwhere(counts):
            colour = "white" if share[row, column] > 0.5 else "black"
            axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=7.5, color=colour)
    return figure
