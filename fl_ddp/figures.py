"""Plots of results."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

_MOST_NUMBERS = 20
"""Classes up to which the cells of a confusion matrix are labelled."""


def confusion_figure(confusion: Sequence[Sequence[int]], classes: Sequence[str]) -> Figure:
    """The confusion matrix: rows are labels, columns predictions, colours the share of a row.

    Args:
        confusion: [C, C] numbers of test samples.
        classes: names of the labels, in their order.
    """
    counts = np.asarray(confusion)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    size = min(3 + 0.45 * len(classes), 12)
    figure = Figure(figsize=(size + 1, size), layout="constrained")
    axes = figure.add_subplot()
    image = axes.imshow(share, vmin=0, vmax=1, cmap="Blues")
    figure.colorbar(image, ax=axes, shrink=0.8, label="share of the class")
    axes.set(xlabel="predicted", ylabel="label")
    if len(classes) <= _MOST_NUMBERS:
        axes.set_xticks(range(len(classes)), classes, rotation=90 if max(map(len, classes)) > 2 else 0)
        axes.set_yticks(range(len(classes)), classes)
        for row, column in np.ndindex(counts.shape):
            colour = "white" if share[row, column] > 0.5 else "black"
            axes.text(column, row, str(counts[row, column]), ha="center", va="center", fontsize=8, color=colour)
    return figure
