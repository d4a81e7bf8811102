"""The plots of tasks, of real runs: what is drawn is what the runs' files hold."""

from __future__ import annotations

import csv
import shutil
import statistics
from pathlib import Path

import numpy as np
import pytest
from launching import simulated
from matplotlib.patches import Rectangle

from fl_ddp.errors import ConfigError
from launch.compare.found_runs import find_runs
from launch.compare.replicates import design_of, rows_of
from launch.plots.figure_style import paper_style
from launch.plots.task_figure import task_end_figure, task_figure
from launch.results import main

pytestmark = pytest.mark.slow
TINY: dict[str, object] = {
    "stream": "ClassGroups", "stream.tasks": 2, "stream.size": 3, "stream.task_rounds": 2, "clients": 4, "rounds": 4,
    "partition": "IID", "model.hidden": 16, "compile": False, "figures": False, "device": "cpu",
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rows of a table with two seeds each."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        for row, lr in (("slow", 0.01), ("fast", 0.1)):
            simulated({**TINY, "seed": seed, "lr": lr, "name": f"{row}-seed{seed}"}, folder)
    return folder


def accuracies(folder: Path, row: str, task: int) -> dict[int, float]:
    """Percent by round, mean over the seeds, from when the task is trained."""
    found: dict[int, list[float]] = {}
    for seed in (0, 1):
        with (folder / f"{row}-seed{seed}" / "tasks.csv").open(newline="") as file:
            for each in csv.DictReader(file):
                if int(each["task_tested"]) == task <= int(each["task_trained"]):
                    found.setdefault(int(each["round"]), []).append(100 * float(each["accuracy"]))
    return {index: statistics.fmean(values) for index, values in found.items()}


def test_rows_are_called_after_their_folders_in_their_order(folder: Path) -> None:
    runs = find_runs([folder / f"{row}-seed{seed}" for row in ("slow", "fast") for seed in (0, 1)]).runs
    design = rows_of(runs)
    assert design.keys == ("row",) and [each.values for each in design.sets] == [("slow",), ("fast",)]
    assert [len(each.runs) for each in design.sets] == [2, 2]


def test_a_group_that_all_rows_are_of_is_left_out(tmp_path: Path) -> None:
    for name in ("s1-slow-seed0", "s1-fast-seed0"):
        simulated({**TINY, "rounds": 1, "lr": 0.01 if "slow" in name else 0.1, "name": name}, tmp_path)
    assert [each.values for each in rows_of(find_runs([tmp_path]).runs).sets] == [("fast",), ("slow",)]


def test_each_task_has_a_line_from_when_it_is_trained(folder: Path) -> None:
    design = design_of(find_runs([folder]).runs)
    with paper_style():
        figure = task_figure(design)
    assert [axes.get_title() for axes in figure.axes] == ["lr = 0.01", "lr = 0.1"]
    for axes, row in zip(figure.axes, ("slow", "fast"), strict=True):
        drawn = [dict(np.asarray(line.get_xydata()).tolist()) for line in axes.lines]
        for task in (1, 2):
            expected = accuracies(folder, row, task)
            assert any(
                list(line) == list(expected) and list(line.values()) == pytest.approx(list(expected.values()))
                for line in drawn
            ), (row, task)
        assert [line for line in drawn if list(line) == [3]] != []  # where the second task begins


def test_a_task_begins_behind_the_end_of_the_one_before_however_seldom_tests_are(tmp_path: Path) -> None:
    simulated({**TINY, "stream.task_rounds": 3, "rounds": 6, "eval_every": 5, "lr": 0.1, "name": "seldom"}, tmp_path)
    with paper_style():
        (axes,) = task_figure(design_of(find_runs([tmp_path]).runs)).axes
    assert [4] in [list(dict(np.asarray(line.get_xydata()).tolist())) for line in axes.lines]


def test_bars_end_where_the_runs_do(folder: Path) -> None:
    design = rows_of(find_runs([folder]).runs)
    with paper_style():
        (axes,) = task_end_figure(design).axes
    assert [label.get_text() for label in axes.get_xticklabels()] == ["task 1", "task 2", "average"]
    heights = [bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle)]
    ends = [[accuracies(folder, str(each.values[0]), task)[4] for task in (1, 2)] for each in design.sets]
    assert heights == pytest.approx([value for of in ends for value in (*of, statistics.fmean(of))])


def test_a_task_that_a_run_does_not_have_has_no_bar(folder: Path, tmp_path: Path) -> None:
    """One of height 0 would be a task that is forgotten."""
    shutil.copytree(folder / "slow-seed0", tmp_path / "two")
    simulated({**TINY, "stream.tasks": 3, "rounds": 6, "name": "three"}, tmp_path)
    with paper_style():
        (axes,) = task_end_figure(design_of(find_runs([tmp_path]).runs)).axes
    heights = np.array([bar.get_height() for bar in axes.patches if isinstance(bar, Rectangle)])
    assert np.isnan(heights).tolist() == [False, False, True, False, *4 * [False]]


def test_the_command_writes_them(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(folder), "--tasks", "--rows", "--metric", "final of average_accuracy", f"--out={tmp_path}"]) == 0
    assert "slow" in capsys.readouterr().out
    assert {"tasks_by_round.png", "tasks_end.png", "tasks_by_round.svg", "tasks_end.svg"} <= {
        path.name for path in tmp_path.iterdir()
    }


def test_runs_without_tasks_are_refused(tmp_path: Path) -> None:
    simulated({"clients": 4, "rounds": 1, "compile": False, "figures": False, "device": "cpu", "name": "a"}, tmp_path)
    with pytest.raises(ConfigError, match=r"^--tasks: no run has tasks with test samples of their own"):
        task_figure(design_of(find_runs([tmp_path]).runs))
