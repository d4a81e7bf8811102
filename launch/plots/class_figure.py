"""The accuracy of each class over rounds, beside that of all: how a model learns and forgets."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fl_ddp.errors import ConfigError
from launch.compare.replicates import Design, Replicates
from launch.plots.figure_style import MOST_PANELS, legend, over_rounds, panels, titled
from launch.plots.short_names import shortened
from launch.run.stored import Run

_MOST_CLASSES = 20
_WIDEST, _LEAST = 24, 12
"""Letters of a line above a panel, and what a value has of them at least."""
_OF_CLASS = "accuracy/"


def class_figure(design: Design) -> Figure:
    """A panel for each set of replicates, a line for each class and a black one for all; of the least seed.

    A mean over seeds would hide what the figure is to show.

    Raises:
        ConfigError: no run has evaluated anything, there are more than nine settings, or more than twenty classes.
    """
    shown = {each: run for each in design.sets if (run := _first(each))}
    classes = list(dict.fromkeys(name for run in shown.values() for name in _classes(run)))
    if not shown:
        raise ConfigError("--classes", "no run has evaluated its model", "runs that have begun")
    if len(shown) > MOST_PANELS:
        raise ConfigError("--classes", f"there are {len(shown)} settings", f"{MOST_PANELS} at most")
    if len(classes) > _MOST_CLASSES:
        raise ConfigError("--classes", f"there are {len(classes)} classes", f"{_MOST_CLASSES} at most")
    shades = {name: colormaps["tab20"](_shade(i, len(classes))) for i, name in enumerate(classes)}
    figure, axes = panels(len(shown))
    titled(figure, axes, [panel_title(design, each) for each in shown])
    for place, run in zip(axes, shown.values(), strict=True):
        for name in _classes(run):
            _line(place, run, name, color=shades[name], linewidth=0.9)
        _line(place, run, "accuracy", color="black", linewidth=1.8)
        over_rounds(place)
        place.set_ylabel("accuracy (%)")
        place.label_outer(remove_inner_ticks=False)
    entries = [Line2D([], [], color=shades[name], label=name.removeprefix(_OF_CLASS)) for name in classes]
    legend(figure, "", [Line2D([], [], color="black", linewidth=1.8, label="all classes"), *entries])
    return figure


def panel_title(design: Design, replicates: Replicates) -> str:
    """What sets replicates apart from the others, in lines that a panel is wide enough for."""
    return _in_lines([_said(design, index, value) for index, value in enumerate(replicates.values) if value])


def value_title(design: Design, key: int, value: str) -> str:
    """What all settings of a panel have in common, in such lines.

    Args:
        design: of the runs.
        key: index of the key.
        value: of it.
    """
    return _in_lines([_said(design, key, value)])


def _said(design: Design, key: int, value: str) -> str:
    name, written = design.names[key], design.written[key]
    head = "" if name in ("method", "path", "row") else f"{name} = "
    return head + shortened(written.values(), max(_WIDEST + 1 - len(head), _LEAST))[written[value]]


def _in_lines(parts: Sequence[str]) -> str:
    lines = list[str]()
    for part in parts:
        if lines and len(lines[-1]) + len(part) < _WIDEST:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return ",\n".join("\n".join(wrap(line, _WIDEST + 1, break_on_hyphens=False)) for line in lines)


def _first(replicates: Replicates) -> Run | None:
    """Of the runs that count and have evaluated something, that of the least seed."""
    known = [run for run in replicates.counted if run.curves.get("accuracy")]
    return min(known, key=lambda run: run.seed, default=None)


def _classes(run: Run) -> Sequence[str]:
    return [name for name in run.curves if name.startswith(_OF_CLASS)]


def _shade(index: int, number: int) -> int:
    """Strong colours alone where they suffice."""
    return 2 * index if number <= _MOST_CLASSES // 2 else index


def _line(axes: Axes, run: Run, column: str, *, color: object, linewidth: float) -> None:
    rounds, values = zip(*run.curves[column], strict=True)
    axes.plot(rounds, [100 * value for value in values], color=color, linewidth=linewidth)
