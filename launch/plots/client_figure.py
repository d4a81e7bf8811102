"""What one client's training forgets: of all classes over rounds, or of one class in several settings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from fl_ddp.errors import ConfigError
from launch.compare.replicates import Design, Replicates
from launch.numbers.metric import Curve, parse_metric
from launch.numbers.spread import spread
from launch.plots.class_figure import panel_title
from launch.plots.curve_figure import MeanCurve, draw_curve
from launch.plots.figure_style import INK, MOST_PANELS, legend, over_rounds, panels, titled
from launch.plots.series import series
from launch.run.client_curves import ClientCurves, client_curves

_DEGREE, _OWN, _SAMPLES = "forgetting_degree", "own_accuracy", "samples"
_LIMITS = {_DEGREE: (-100.0, 100.0), _OWN: (0.0, 100.0), _SAMPLES: (0.0, math.inf)}
"""The least and the most that a curve can have, in percent but for samples."""
_MOST_TICKS = 8

Told = Mapping[Replicates, Mapping[int, ClientCurves]]
"""What each run tells of a client, by setting and seed; runs that tell nothing are left out."""


def client_figure(design: Design, client: int) -> Figure:
    """What a client has of each class beside the forgetting degree of each class over rounds, a row for each setting.

    A column for each round in which the client took part and was looked at; means over the seeds in which it was. The
    samples are those at first. Degrees are cut off at -1.

    Raises:
        ConfigError: no run tells, or there are more than nine settings.
    """
    told = _told(design, client)
    if len(told) > MOST_PANELS:
        raise ConfigError("--client", f"{client}: there are {len(told)} settings", f"{MOST_PANELS} at most")
    height = max(1.6, 0.16 * max(len(_classes(by_seed)) for by_seed in told.values()))
    figure = Figure(figsize=(6.4, height * len(told) + 0.6), layout="constrained")
    axes = figure.subplots(len(told), 2, squeeze=False, width_ratios=[1, 3.2])
    if design.keys:
        titled(figure, [*axes[:, 1]], [panel_title(design, each) for each in told])
    for (bars, heat), by_seed in zip(axes, told.values(), strict=True):
        classes = _classes(by_seed)
        _bars(bars, classes, [_at_first(by_seed, name) for name in classes])
        image = _map(heat, *_degrees(by_seed, classes))
    for place, label in zip(axes[-1], (f"samples of client {client}", "round"), strict=True):
        place.set_xlabel(label)
    bar = figure.colorbar(image, ax=axes[:, 1], ticks=[-1, 0, 1], pad=0.02)
    bar.set_label("forgetting degree")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    return figure


def class_of_client_figure(design: Design, client: int, name: str) -> Figure:
    """A class's forgetting degree at a client, and the accuracy of the client's own model on it, over rounds.

    A line for each setting, the mean over seeds, with a band of one standard deviation; where the client took part in
    other rounds in each seed, a thin line for each. Where what the client has of the class changes over rounds, or
    differs among settings with the same seed, a third panel shows it.

    Raises:
        ConfigError: no run tells.
    """
    told = _told(design, client)
    known = {name for by_seed in told.values() for name in _classes(by_seed)}
    if name not in known:
        raise ConfigError("--of_class", f"{name}: client {client} has no such class", ", ".join(sorted(known)))
    held = [{seed: _of(of, name, _SAMPLES) for seed, of in by_seed.items()} for by_seed in told.values()]
    figure, places = panels(3 if _changes(held) else 2, alike=False)
    named = series(design, list(told), parse_metric(f"final of {_DEGREE}/{client}/{name}"), None)
    labels = ("forgetting degree (%)", "own accuracy (%)", "samples")
    for place, column, label in zip(places, (_DEGREE, _OWN, _SAMPLES), labels, strict=False):
        for replicates, by_seed in told.items():
            curves = [curve for of in by_seed.values() if (curve := _of(of, name, column))]
            scale = 1 if column == _SAMPLES else 100
            _draw(place, curves, named.shade(replicates), scale, _LIMITS[column])
        place.set_ylabel(label)
        over_rounds(place)
    places[0].set_title(f"client {client}, class {name}", loc="left")
    if len(set(named.labels.values())) > 1:
        legend(figure, named.title, named.entries())
    return figure


def _told(design: Design, client: int) -> Told:
    told = {}
    for each in design.sets:
        by_seed = {run.seed: client_curves(run.folder, client) for run in each.counted}
        if known := {seed: curves for seed, curves in by_seed.items() if any(of[_DEGREE] for of in curves.values())}:
            told[each] = known
    if not told:
        raise ConfigError("--client", f"{client}: no run tells of it", "a client of runs with --forgetting_every")
    return told


def _classes(by_seed: Mapping[int, ClientCurves]) -> list[str]:
    return list(dict.fromkeys(name for curves in by_seed.values() for name in curves))


def _of(curves: ClientCurves, name: str, column: str) -> Curve:
    return curves.get(name, {}).get(column, ())


def _degrees(by_seed: Mapping[int, ClientCurves], classes: Sequence[str]) -> tuple[list[int], npt.NDArray[np.float64]]:
    """Rounds, and mean degrees [C, rounds] over the seeds that have the round."""
    of_seeds = [{name: dict(_of(curves, name, _DEGREE)) for name in classes} for curves in by_seed.values()]
    rounds = sorted({r for of_seed in of_seeds for degrees in of_seed.values() for r in degrees})
    means = np.full((len(classes), len(rounds)), np.nan)
    for row, name in enumerate(classes):
        for column, number in enumerate(rounds):
            if values := [of_seed[name][number] for of_seed in of_seeds if number in of_seed[name]]:
                means[row, column] = statistics.fmean(values)
    return rounds, means


def _at_first(by_seed: Mapping[int, ClientCurves], name: str) -> float:
    """What a client has of a class at first, mean over seeds."""
    curves = [_of(of, name, _SAMPLES) for of in by_seed.values()]
    return statistics.fmean([curve[0][1] for curve in curves if curve] or [0.0])


def _changes(held: Sequence[Mapping[int, Curve]]) -> bool:
    """Whether what a client has of a class changes over rounds, or differs among settings with the same seed."""
    first: dict[int, set[float]] = {}
    for seed, curve in ((seed, curve) for by_seed in held for seed, curve in by_seed.items() if curve):
        if len({value for _, value in curve}) > 1:
            return True
        first.setdefault(seed, set()).add(curve[0][1])
    return any(len(values) > 1 for values in first.values())


def _draw(axes: Axes, curves: Sequence[Curve], colour: str, scale: float, limits: tuple[float, float]) -> None:
    """The mean of curves in the same rounds, with its spread; each by itself if they are in others."""
    rounds = [[r for r, _ in curve] for curve in curves]
    if any(each != rounds[0] for each in rounds):
        for each, curve in zip(rounds, curves, strict=True):
            axes.plot(each, [scale * value for _, value in curve], color=colour, linewidth=0.7, marker=".")
        return
    values = [
        [scale * value for value in column] for column in zip(*([v for _, v in curve] for curve in curves), strict=True)
    ]
    deviations = [spread(column) or 0.0 for column in values]
    draw_curve(axes, MeanCurve(rounds[0], list(map(statistics.fmean, values)), deviations, limits), colour)


def _bars(axes: Axes, classes: Sequence[str], samples: Sequence[float]) -> None:
    axes.barh(range(len(classes)), samples, color=INK, height=0.7)
    axes.set_yticks(range(len(classes)), classes)
    axes.set_ylim(len(classes) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(2, integer=True))
    axes.tick_params(length=0)


def _map(axes: Axes, rounds: Sequence[int], degrees: npt.NDArray[np.float64]) -> AxesImage:
    """A column for each round there is, which may be any ones."""
    image = axes.imshow(degrees, vmin=-1, vmax=1, cmap="RdBu_r", aspect="auto", interpolation="nearest")
    every = -(-len(rounds) // _MOST_TICKS)
    axes.set_xticks(range(0, len(rounds), every), [str(each) for each in rounds[::every]])
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    return image
