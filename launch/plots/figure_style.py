"""How the plots of a paper look: one size of text, colours that colour-blind readers can tell apart, no more ink."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import cos, radians, sin
from pathlib import Path
from typing import Any, Literal

import matplotlib as mpl
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from fl_ddp.host.atomic_file import write_bytes
from launch.plots.short_names import shortened

# Okabe and Ito 2008, the dark ones first, with a wine red, which is far from them for colour-blind readers, too
_PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#882255", "#F0E442")
MOST_COLOURS = len(_PALETTE) - 1
"""Of lines in a panel, for which yellow is too light."""
MOST_PANELS = len(_PALETTE)
"""Settings side by side."""
_BESIDE, _MOST_BESIDE = 1.2, 3.2
"""Inches that panels() leaves for a legend beside them, and that one may take there."""
_LETTER, _LINE = 0.06, 0.17
"""Inches of a letter and of a line in a legend, or of a line of a title."""
INK, GREY = _PALETTE[0], "#BBBBBB"
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")
_MOST_IN_TICK, _MOST_IN_ROW, _SLANT = 30, 48, 35
"""Letters of a tick's name, and of all where they stand beside each other; degrees by which they are turned else."""
_MOST_WIDE = 24.0
"""Inches."""
_STYLE: dict[Any, Any] = {
    "font.size": 9,  # points: figures are made in the size in which they are printed
    "axes.titlesize": "medium",
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "grid.color": "#E4E4E4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "legend.fontsize": 8,
    "legend.title_fontsize": 8,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "svg.hashsalt": "fl_ddp",  # the same runs give the same file
}


def colours(names: Sequence[str], *, ordered: bool) -> dict[str, str]:
    """A colour for each name: from dark to light where the names have an order, else as different as nine can be."""
    if not ordered or len(names) < 3:
        return dict(zip(names, _PALETTE, strict=False))
    shades = colormaps["viridis"]
    return {name: mpl.colors.to_hex(shades(0.9 * i / (len(names) - 1))) for i, name in enumerate(names)}


@contextmanager
def paper_style() -> Iterator[None]:
    """Figures are made and saved in this style within a block."""
    with mpl.rc_context(_STYLE):
        yield


def panels(number: int, *, alike: bool = True, least: float = 0.0) -> tuple[Figure, list[Axes]]:
    """A figure with room for a legend on the right, and its axes, which share their scales if they are alike.

    Args:
        number: of axes.
        alike: whether they share them.
        least: inches that each is high, with the names of its ticks.
    """
    columns = number if number < 4 else 2 if number == 4 else 3
    width, height = (3.5, 2.6) if number == 1 else (2.1, 1.9)
    height = max(height, least)
    rows = -(-number // columns)
    figure = Figure(figsize=(width * columns + _BESIDE, height * rows), layout="constrained")
    axes = list(figure.subplots(rows, columns, sharex=True, sharey=alike, squeeze=False).flat)
    for spare in axes[number:]:
        spare.remove()
    for place in axes[max(number - columns, 0) : number]:
        place.tick_params("x", labelbottom=True)
    return figure, axes[:number]


def titled(figure: Figure, axes: Sequence[Axes], titles: Sequence[str]) -> None:
    """Write titles above axes of a figure, which becomes higher for those of several lines."""
    lines = max(title.count("\n") for title in titles)
    grid = axes[0].get_gridspec()
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + _LINE * lines * (grid.nrows if grid else 1))
    for place, title in zip(axes, titles, strict=True):
        place.set_title(title)


def name_ticks(figure: Figure, axes: Axes, names: Sequence[str]) -> None:
    """Name 0, 1, ... on the x axis; slantwise where there is no room else, in a figure that becomes larger for it."""
    short = list(shortened(names, _MOST_IN_TICK).values())
    longest = max(map(len, short))
    turned: dict[str, Any] = {"rotation": _SLANT, "ha": "right", "rotation_mode": "anchor"}
    slantwise = len(short) * longest > _MOST_IN_ROW
    axes.set_xticks(range(len(short)), short, **(turned if slantwise else {}))
    axes.set_xlim(-0.5, len(short) - 0.5)
    if slantwise:
        width, height = figure.get_size_inches()
        along, up = (_LETTER * longest * part(radians(_SLANT)) for part in (cos, sin))
        apart = len(short) * _LINE / sin(radians(_SLANT))
        figure.set_size_inches(min(max(width, apart + _BESIDE) + along, _MOST_WIDE), height + up)


def over_rounds(axes: Axes) -> None:
    """Name the x axis, with few whole numbers on it."""
    axes.set_xlabel("round")
    axes.xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    axes.margins(x=0.02)


def over_cost(axes: Axes, cost: str, unit: str) -> None:
    """Name the x axis of what rounds cost."""
    axes.set_xlabel(f"{cost} ({unit})")
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.margins(x=0.02)


def legend(figure: Figure, title: str, entries: Sequence[Line2D]) -> None:
    """Name lines on the right of a figure, which becomes wider for them, or below it where names are long."""
    width, height = figure.get_size_inches()
    longest = max(len(title), *(len(str(each.get_label())) for each in entries))
    needed = 0.5 + _LETTER * longest
    if beside := needed <= _MOST_BESIDE:
        figure.set_size_inches(width + max(needed - _BESIDE, 0), max(height, _LINE * (len(entries) + 2)))
    else:
        figure.set_size_inches(max(width - _BESIDE, needed), height + _LINE * (len(entries) + 2))
    loc: Literal["outside right upper", "outside lower left"] = (
        "outside right upper" if beside else "outside lower left"
    )
    figure.legend(handles=entries, title=title, loc=loc, alignment="left", handlelength=1.6, borderaxespad=0.2)


def save(figure: Figure, path: Path) -> str:
    """Write a figure as .png and .svg; the name of the first.

    Raises:
        RunError: they cannot be written.
    """
    for ending, metadata in (("png", {}), ("svg", {"Date": None})):
        image = io.BytesIO()
        figure.savefig(image, format=ending, dpi=300, metadata=metadata)
        write_bytes(path.with_name(f"{path.name}.{ending}"), image.getvalue())
    return f"{path.name}.png"
