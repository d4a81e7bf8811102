"""A metric over settings with long names: they end at their ticks, apart from each other, within the figure."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from written_runs import Written, rising

from launch.compare.found_runs import find_runs
from launch.compare.replicates import rows_of
from launch.numbers.metric import parse_metric
from launch.plots.figure_style import paper_style
from launch.plots.metric_figure import metric_figure

METHODS = ("FedAvg", "FedProx", "Scaffold", "FedDyn", "FedNova", "Ditto")


def over_rows(folder: Path, rows: list[str]) -> Figure:
    """The final accuracy over rows of a table, drawn; a warning would be an error."""
    for number, row in enumerate(rows):
        Written({"lr": 0.1 + 0.01 * number}, rising(0.5)).at(folder / row)
    with paper_style(), warnings.catch_warnings(action="error"):
        figure = metric_figure(rows_of(find_runs([folder]).runs), 0, parse_metric("final"))
        assert figure is not None
        FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    return figure


@pytest.mark.parametrize("letters", [8, 40, 60, 90])
@pytest.mark.parametrize("number", [3, 6, 24])
def test_names_end_at_their_ticks_within_a_figure_with_room_for_what_is_drawn(
    letters: int, number: int, tmp_path: Path
) -> None:
    figure = over_rows(
        tmp_path, [f"{METHODS[i % 6]}{i}".ljust(letters - 2, "xyz"[i % 3]) + f"{i}" for i in range(number)]
    )
    (axes,) = figure.axes
    assert axes.bbox.height > 1.6 * figure.dpi and axes.bbox.width > 2.7 * figure.dpi
    labels = axes.get_xticklabels()
    assert len({label.get_text() for label in labels}) == number
    for place, label in enumerate(labels):
        box = label.get_window_extent()
        tick = axes.transData.transform((place, 0))[0]
        assert box.x0 >= 0 and box.y0 >= 0
        assert abs(tick - box.x1) < 0.1 * figure.dpi if label.get_rotation() else abs(tick - (box.x0 + box.x1) / 2) < 1
    assert axes.yaxis.label.get_window_extent().y1 <= figure.bbox.y1
    assert axes.xaxis.label.get_window_extent().y0 >= 0


@pytest.mark.parametrize("number", [6, 40])
def test_slanted_names_lie_beside_each_other(number: int, tmp_path: Path) -> None:
    figure = over_rows(tmp_path, [f"alpha{i}-{METHODS[i % 6]}-and-something-more-of-it" for i in range(number)])
    (axes,) = figure.axes
    step = np.diff(axes.transData.transform([(0, 0), (1, 0)])[:, 0])[0] / figure.dpi
    (label, *_) = axes.get_xticklabels()
    assert label.get_horizontalalignment() == "right" and label.get_rotation_mode() == "anchor"
    assert step * np.sin(np.radians(label.get_rotation())) > 1.2 * 8 / 72, "lines of 8 points are so far apart"
