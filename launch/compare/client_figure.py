"""What one client's training forgets: of all classes over rounds, or of one class in several settings."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.ticker import MaxNLocator

from launch.compare.class_figure import MOST_PANELS, panel_title
from launch.compare.curve_figure import draw_curves, mean_curves
from launch.compare.figure_style import INK, legend, panels
from launch.compare.replicates import Design, Replicates
from launch.compare.series import series
from launch.numbers.metric import parse_metric

_DEGREE, _OWN = "forgetting_degree", "own_accuracy"


def client_figure(design: Design, client: int) -> Figure | None:
    """What a client has of each class beside the forgetting degree of each class over rounds, a row for each setting.

    Means over seeds, degrees cut off at -1. Nothing where no run tells, or for more than nine settings.
    """
    known = [each for each in design.sets if _heat(each, client).size]
    if not known or len(known) > MOST_PANELS:
        return None
    rows = max(len(_classes(each)) for each in known)
    height = max(1.6, 0.16 * rows)
    figure = Figure(figsize=(6.4, height * len(known) + 0.6), layout="constrained")
    axes = figure.subplots(len(known), 2, squeeze=False, width_ratios=[1, 3.2])
    image = None
    for (bars, heat), replicates in zip(axes, known, strict=True):
        classes = _classes(replicates)
        _bars(bars, classes, [_samples(replicates, client, name) for name in classes])
        image = _map(heat, _rounds(replicates, client), _heat(replicates, client))
        if design.keys:
            heat.set_title(panel_title(design, replicates))
    for place, label in zip(axes[-1], (f"samples of client {client}", "round"), strict=True):
        place.set_xlabel(label)
    assert image is not None
    bar = figure.colorbar(image, ax=axes[:, 1], ticks=[-1, 0, 1], pad=0.02)
    bar.set_label("forgetting degree")
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0)
    return figure


def class_of_client_figure(design: Design, client: int, name: str) -> Figure | None:
    """A class's forgetting degree at a client, and the accuracy of the client's own model on it, over rounds.

    A line for each setting, the mean over seeds, with a band of one standard deviation. Where settings differ in what
    the client has of the class, or that changes, a third panel shows it. Nothing where no run tells.
    """
    metrics = {column: parse_metric(f"final of {column}/{client}/{name}") for column in (_DEGREE, _OWN)}
    curves = {column: mean_curves(design, metric) for column, metric in metrics.items()}
    if not curves[_DEGREE]:
        return None
    held = {each: _held(each, client, name) for each in curves[_DEGREE]}
    changes = len({value for of_one in held.values() for _, value in of_one}) > 1
    figure, places = panels(3 if changes else 2, alike=False)
    named = series(design, list(curves[_DEGREE]), metrics[_DEGREE], None)
    labels = (f"forgetting degree of {name} (%)", f"own accuracy of {name} (%)")
    for place, column, label in zip(places, metrics, labels, strict=False):
        draw_curves(place, curves[column], named)
        place.set_ylabel(label)
    if changes:
        for replicates, of_one in held.items():
            rounds, values = zip(*of_one, strict=True)
            places[2].step(rounds, values, where="post", color=named.shade(replicates))
        places[2].set_ylabel(f"samples of {name}")
        places[2].set_ylim(bottom=0)
        places[2].xaxis.set_major_locator(MaxNLocator(5, integer=True, min_n_ticks=1))
    for place in places:
        place.set_xlabel("round")
    places[0].set_title(f"client {client}", loc="left")
    if len(set(named.labels.values())) > 1:
        legend(figure, named.title, named.entries())
    return figure


def _classes(replicates: Replicates) -> list[str]:
    columns = (name for run in replicates.counted for name in run.curves if name.startswith(f"{_DEGREE}/"))
    return [name.partition("/")[2] for name in dict.fromkeys(columns)]


def _rounds(replicates: Replicates, client: int) -> list[int]:
    """Rounds in which every run that counts has looked at the client."""
    names = _classes(replicates)[:1]
    of_runs = [{r for r, _ in run.curve(f"{_DEGREE}/{client}/{name}")} for run in replicates.counted for name in names]
    return sorted(set.intersection(*of_runs)) if of_runs else []


def _heat(replicates: Replicates, client: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Mean forgetting degrees over seeds [C, rounds]."""
    rounds, rows = _rounds(replicates, client), []
    for name in _classes(replicates):
        of_seeds = [dict(run.curve(f"{_DEGREE}/{client}/{name}")) for run in replicates.counted]
        rows.append([statistics.fmean(of_one.get(r, np.nan) for of_one in of_seeds) for r in rounds])
    return np.array(rows, np.float64).reshape(len(rows), len(rounds))


def _held(replicates: Replicates, client: int, name: str) -> list[tuple[int, float]]:
    """Samples of a class that a client has, by round: of the first run that tells."""
    curves = (run.curve(f"samples/{client}/{name}") for run in replicates.counted)
    return list(next((curve for curve in curves if curve), ()))


def _samples(replicates: Replicates, client: int, name: str) -> float:
    held = _held(replicates, client, name)
    return held[-1][1] if held else 0.0


def _bars(axes: Axes, classes: Sequence[str], samples: Sequence[float]) -> None:
    axes.barh(range(len(classes)), samples, color=INK, height=0.7)
    axes.set_yticks(range(len(classes)), classes)
    axes.set_ylim(len(classes) - 0.5, -0.5)
    axes.grid(visible=False)
    axes.xaxis.set_major_locator(MaxNLocator(2, integer=True))
    axes.tick_params(length=0)


def _map(axes: Axes, rounds: Sequence[int], degrees: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> AxesImage:
    step = rounds[1] - rounds[0] if len(rounds) > 1 else 1
    place = (rounds[0] - step / 2, rounds[-1] + step / 2, len(degrees) - 0.5, -0.5)
    image = axes.imshow(degrees, vmin=-1, vmax=1, cmap="RdBu_r", aspect="auto", extent=place, interpolation="nearest")
    axes.set_yticks([])
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, min_n_ticks=1))
    return image
