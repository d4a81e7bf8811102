"""Plots of a run: which client holds how much of which class, and what the model takes for what."""

from __future__ import annotations

import io
import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter, StrMethodFormatter

from fl_ddp.protocol import Counts, Indices
from fl_ddp.results.forgetting_table import ClassChange

CLIENTS_SHOWN = 50
LARGEST_HEIGHT, NAME_HEIGHT = 8.0, 0.13  # inches
INK, PALE, FAINT, GREY = "#2b5c8a", "#a9c0d6", "#e4e4e4", "#c8c8c8"
_MOST_NUMBERS = 20
"""Classes up to which the cells of a confusion matrix are labelled."""


def partition_figure(clients: Sequence[Indices], labels: Indices, classes: Sequence[str]) -> Figure:
    """Bubbles of client x class, their area proportional to the number of samples, below bars of the clients' sizes.

    Args:
        clients: sample indices of each client; the first 50 are drawn.
        labels: [N] label of each sample.
        classes: names of the labels.

    Returns:
        a figure of its own, ready for png().
    """
    shown = clients[:CLIENTS_SHOWN]
    counts = np.stack([np.bincount(labels[part], minlength=len(classes)) for part in shown])
    row, column = min(0.28, LARGEST_HEIGHT / len(classes)), min(max(6.2 / len(shown), 0.17), 0.3)  # inches
    width, height = max(column * len(shown), 2.5), max(row * len(classes), 1.2)
    figure = Figure(figsize=(width + 2.2, height + 1.7), layout="constrained")
    bars, bubbles = figure.subplots(2, 1, sharex=True, height_ratios=[0.6, height])
    largest_area = (0.95 * 72 * min(column, row)) ** 2  # points^2; neighbours just do not touch
    _draw_sizes(bars, counts.sum(axis=1))
    _draw_bubbles(bubbles, counts, classes, largest_area, every=math.ceil(NAME_HEIGHT / row))
    total = sum(len(part) for part in clients)
    part_shown = f" (first {len(shown)} shown)" if len(shown) < len(clients) else ""
    figure.align_ylabels()
    different = len(np.unique(np.concatenate(clients)))
    overlap = f" ({different:,} different)" if different < total else ""
    kinds = f", {len(classes)} classes" if len(classes) > 1 else ""
    title = f"{len(clients):,} clients{part_shown}, {total:,} samples{overlap}{kinds}"
    figure.suptitle(title, fontsize=10)
    return figure


def confusion_figure(confusion: Sequence[Sequence[int]], classes: Sequence[str]) -> Figure:
    """The confusion matrix: rows are labels, columns predictions, colours the share of a row; a cell of 0 is empty.

    Args:
        confusion: [C, C] numbers of test samples.
        classes: names of the labels, in their order.
    """
    counts = np.asarray(confusion)
    share = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    # Small for its letters: TensorBoard shows it in a fourth of its size.
    size = min(max(1.2 + 0.34 * len(classes), 2.5), 9)
    figure = Figure(figsize=(size + 1.1, size), layout="compressed")
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


def forgetting_figure(changes: Sequence[ClassChange], classes: Sequence[str]) -> Figure:
    """What each client has of each class, as bubbles, beside what its local training has lost of it.

    Classes of which the received model knew nothing are grey: there was nothing to lose, whatever was learned.

    Args:
        changes: of all clients of a round, of which the first 50 are drawn, and classes; degrees are cut off at -1.
        classes: names of the labels.
    """
    clients = sorted({each.client for each in changes})[:CLIENTS_SHOWN]
    counts, degrees = (np.full((len(clients), len(classes)), fill) for fill in (0.0, np.nan))
    unknown = np.zeros(counts.shape, bool)
    for each in changes:
        if each.client in clients:
            at = clients.index(each.client), each.label
            counts[at], degrees[at] = each.samples, max(each.degree, -1.0)
            unknown[at] = each.received == 0
    row, column = min(0.28, LARGEST_HEIGHT / len(classes)), min(max(6.2 / len(clients), 0.17), 0.3)
    width, height = max(column * len(clients), 2.5), max(row * len(classes), 1.2)
    figure = Figure(figsize=(2 * width + 3.4, height + 1.0), layout="constrained")
    bubbles, heat = figure.subplots(1, 2)
    every = math.ceil(NAME_HEIGHT / row)
    _draw_bubbles(bubbles, counts.astype(np.int64), classes, (0.95 * 72 * min(column, row)) ** 2, every=every)
    image = heat.imshow(np.where(unknown, np.nan, degrees).T, vmin=-1, vmax=1, cmap="RdBu_r", aspect="auto")
    heat.imshow(np.where(unknown, 0.0, np.nan).T, cmap=ListedColormap([GREY]), aspect="auto")
    bar = figure.colorbar(image, ax=heat)
    bar.set_label("forgetting degree, cut off at -1 (grey: unknown before)", fontsize=7)
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=8, length=0)
    heat.set_yticks(range(0, len(classes), every), classes[::every])
    heat.set_xlabel("client", fontsize=9)
    _tidy(heat)
    for axes in (bubbles, heat):
        shown = range(0, len(clients), math.ceil(len(clients) / 20))
        axes.set_xticks(shown, [str(clients[i]) for i in shown])
    return figure


def png(figure: Figure) -> bytes:
    """A figure as an image, in the resolution of print."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=200)
    return image.getvalue()


def _draw_sizes(axes: Axes, sizes: Counts) -> None:
    axes.bar(np.arange(len(sizes)), sizes, width=0.7, color=PALE)
    axes.set_ylabel("samples", fontsize=9)
    axes.yaxis.set_major_locator(MaxNLocator(2, integer=True, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    _tidy(axes)


def _draw_bubbles(axes: Axes, counts: Counts, classes: Sequence[str], largest_area: float, every: int) -> None:
    """Bubbles for counts [clients, C]; what is too small to see is a dot of 1 point^2; every n-th class is named."""
    largest = int(np.max(counts, initial=1))
    client, label = np.nonzero(counts)
    areas = largest_area * counts[client, label] / largest
    axes.scatter(client, label, s=np.maximum(areas, 1.0), color=INK, linewidths=0)
    axes.set_yticks(range(0, len(classes), every), classes[::every])
    axes.set_ylim(len(classes) - 0.4, -0.6)  # class 0 on top
    axes.set_xlim(-0.6, len(counts) - 0.4)
    axes.xaxis.set_major_locator(MaxNLocator(20 if len(counts) <= 20 else 10, integer=True, steps=[1, 2, 5, 10]))
    axes.set_xlabel("client", fontsize=9)
    axes.set_ylabel("class", fontsize=9)
    axes.grid(color=FAINT, linewidth=0.5)
    axes.set_axisbelow(True)
    _tidy(axes)
    _draw_legend(axes, largest, largest_area)


def _draw_legend(axes: Axes, largest: int, largest_area: float) -> None:
    """Bubbles of round numbers of samples, the way they are drawn."""
    room = max(0.5, largest_area**0.5 / 8 - 0.6)  # between entries, in font sizes: large bubbles do not touch
    numbers = sorted({_round_number(largest * part) for part in (1.0, 0.5, 0.1)}, reverse=True)
    diameters = [(largest_area * number / largest) ** 0.5 for number in numbers]
    axes.legend(
        handles=[
            Line2D([], [], linestyle="", marker="o", color=INK, markeredgewidth=0, markersize=diameter)
            for diameter in diameters
        ],
        labels=[f"{number:,}" for number in numbers],
        title="samples", title_fontsize=8, fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0),
        labelspacing=room, handletextpad=room,
    )  # fmt: skip


def _tidy(axes: Axes) -> None:
    axes.tick_params(labelsize=8, length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def _round_number(value: float) -> int:
    """The largest of 1, 2, 5 times a power of ten that is not above value; 1 at least."""
    power = 10 ** int(np.log10(max(value, 1)))
    return int(max(factor * power for factor in (1, 2, 5) if factor * power <= max(value, 1)))
