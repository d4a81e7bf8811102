"""Panels whose settings differ in much: no title reaches into another one, no bubble into its neighbours."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from written_runs import Written, design_in

from launch.compare.found_runs import find_runs
from launch.compare.replicates import Design, Replicates, rows_of
from launch.plots.class_figure import class_figure, panel_title
from launch.plots.figure_style import paper_style
from launch.plots.partition_figure import partition_figure

SETTINGS = (
    {"method": "FedProx", "local_test": 0.25, "lr": 0.03, "participation": 0.125},
    {"method": "FedAvg", "forgetting_every": 3, "local_epochs": 2, "participation": 0.5},
    {"method": "FedAvg", "local_epochs": 12, "lr": 0.001, "eval_every": 2},
)


def design(folder: Path, classes: int) -> Design:
    runs = {f"run{index}": Written(settings, [0.1, 0.5, 0.4]) for index, settings in enumerate(SETTINGS)}
    found = design_in(folder, runs)
    dealt(folder, runs, classes)
    return found


def dealt(folder: Path, runs: Iterable[str], classes: int) -> None:
    """Write who holds what, otherwise in each run."""
    for index, name in enumerate(runs):
        counts = [{str(label): 9 + k * index for label in range(classes)} for k in range(5)]
        (folder / name / "partition.json").write_text(json.dumps({"counts": counts}))


def long_rows(folder: Path, rows: Sequence[str]) -> Design:
    """Rows of a table, each of a run."""
    for number, row in enumerate(rows):
        Written({"lr": 0.1 + 0.01 * number}, [0.1, 0.5, 0.4]).at(folder / row)
    dealt(folder, rows, 10)
    return rows_of(find_runs([folder]).runs)


def drawn(figure: Figure) -> None:
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("draw", [class_figure, partition_figure])
def test_titles_stay_apart_and_above_their_panels(draw: object, tmp_path: Path) -> None:
    with paper_style():
        figure = draw(design(tmp_path, 10))  # type: ignore[operator]
        drawn(figure)
    assert len(figure.axes) == 3
    boxes = [axes.title.get_window_extent() for axes in figure.axes]
    boxes += [legend.get_window_extent() for legend in figure.legends]
    assert all(text.get_text().count("\n") >= 2 for text in (axes.title for axes in figure.axes))
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[index + 1 :])
    for axes in figure.axes:
        assert axes.bbox.height > 1.2 * figure.dpi, "what the titles need is added to the figure"


@pytest.mark.parametrize("draw", [class_figure, partition_figure])
@pytest.mark.parametrize(
    "rows",
    [
        [f"cifar10-dirichlet-alpha0.{i}-FedAvg-with-what-all-have-in-common" for i in range(3)],
        [sha256(bytes([i])).hexdigest() for i in range(9)],
        [f"{'a' * 40}{i}{'b' * 40}" for i in range(9)],
    ],
)
def test_titles_of_one_long_word_stay_apart(draw: object, rows: list[str], tmp_path: Path) -> None:
    with paper_style():
        figure = draw(long_rows(tmp_path, rows))  # type: ignore[operator]
        drawn(figure)
    assert len({axes.get_title() for axes in figure.axes}) == len(rows)
    boxes = [each.get_window_extent() for each in (*(axes.title for axes in figure.axes), *figure.legends)]
    assert not any(box.overlaps(other) for index, box in enumerate(boxes) for other in boxes[index + 1 :])
    assert all(box.x0 >= 0 and box.y1 <= figure.bbox.y1 for box in boxes)


def test_a_long_value_leaves_room_for_its_name(tmp_path: Path) -> None:
    paths = [f"/data/{letter * 30}.npz" for letter in "ab"]
    design = Design(("data.root",), tuple(Replicates((path,), ()) for path in paths))
    titles = [panel_title(design, each) for each in design.sets]
    assert titles == [f"root = {letter * 9}…{letter * 4}.npz" for letter in "ab"]


@pytest.mark.parametrize("classes", [10, 100])
def test_bubbles_stay_in_their_rows(classes: int, tmp_path: Path) -> None:
    with paper_style():
        figure = partition_figure(design(tmp_path, classes))
        drawn(figure)
    for axes in figure.axes:
        (bubbles,) = axes.collections
        row = np.ptp(axes.transData.transform([[0, 0], [0, 1]])[:, 1])  # pixels from class to class
        widest = max(bubbles.get_sizes()) ** 0.5 * figure.dpi / 72  # type: ignore[attr-defined]
        assert 0.5 * row < widest < 1.15 * row
        names = [label.get_window_extent() for label in axes.get_yticklabels() if label.get_text()]
        assert not any(above.overlaps(below) for above, below in pairwise(names))
