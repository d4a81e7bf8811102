"""tasks.csv."""

from __future__ import annotations

from pathlib import Path

import pytest

from fl_ddp.results.metrics import Record
from fl_ddp.retention.matrix import of_tasks
from fl_ddp.retention.table import TasksSoFar, TaskTable

SIZES = (8, 16)


def test_a_row_for_each_task_of_each_evaluation(tmp_path: Path) -> None:
    table = TaskTable(tmp_path / "tasks.csv", None, SIZES)
    table.add(0, 0, (0.1, 0.25))
    table.add(3, 1, (0.5,))
    table.add(4, 1, (0.75, 0.125))
    lines = (tmp_path / "tasks.csv").read_text().splitlines()
    assert lines == [
        "round,task_trained,task_tested,test_samples,accuracy", "0,0,1,8,0.1", "0,0,2,16,0.25", "3,1,1,8,0.5",
        "4,1,1,8,0.75", "4,1,2,16,0.125",
    ]  # fmt: skip
    assert table.matrix == {0: (0.1, 0.25), 1: (0.75, 0.125)}
    assert {finished: each.accuracies for finished, each in table.rounds.items()} == {0: (), 3: (0.5,), 4: (0.75,)}


def test_a_checkpoint_cuts_later_rows_off(tmp_path: Path) -> None:
    table = TaskTable(tmp_path / "tasks.csv", None, SIZES)
    table.add(1, 1, (0.5,))
    state = table.file.state()
    table.add(2, 1, (0.75, 0.25))
    table.file.close()
    again = TaskTable(tmp_path / "tasks.csv", state, SIZES)
    assert again.matrix == {1: (0.5,)} and again.rounds == {1: TasksSoFar((0.5,), 0.5, None)}
    assert (tmp_path / "tasks.csv").read_text().count("\n") == 2


COURSE = {
    0: (0, (0.1, 0.25, 0.3)), 1: (1, (0.95,)), 2: (1, (0.9, 0.2, 0.1)), 3: (2, (0.6, 0.85)), 4: (2, (0.7, 0.8, 0.1)),
    5: (3, (0.75, 0.5, 0.9)),
}  # fmt: skip
"""Evaluations of three tasks, whose ends are after rounds 2 and 4: the task, and accuracies on tasks."""
AVERAGES = {0: None, 1: 0.95, 2: 0.9, 3: (0.6 + 0.85) / 2, 4: (0.7 + 0.8) / 2, 5: (0.75 + 0.5 + 0.9) / 3}
FORGOTTEN = {0: None, 1: None, 2: None, 3: 0.9 - 0.6, 4: 0.9 - 0.7, 5: ((0.9 - 0.75) + (0.8 - 0.5)) / 2}
"""A task's best is of the ends of tasks, its own and later ones: not 0.95 of the first, nor 0.85 of the second."""


@pytest.mark.parametrize("resumed_after", [None, 0, 1, 3, 4])
def test_each_evaluation_has_its_averages_over_the_tasks_so_far(tmp_path: Path, resumed_after: int | None) -> None:
    sizes = (8, 16, 4)
    table = TaskTable(tmp_path / "tasks.csv", None, sizes)
    for finished, (task, accuracies) in COURSE.items():
        table.add(finished, task, accuracies)
        if finished == resumed_after:
            state = table.file.state()
            table.add(finished + 1, task + 1, (1.0, 1.0, 1.0))  # which the checkpoint does not know
            table.file.close()
            table = TaskTable(tmp_path / "tasks.csv", state, sizes)
    told = {finished: table.told(Record(finished)) for finished in COURSE}
    assert {finished: each.average_accuracy for finished, each in told.items()} == pytest.approx(AVERAGES)
    assert {finished: each.average_forgetting for finished, each in told.items()} == pytest.approx(FORGOTTEN)
    last = of_tasks(table.matrix, sizes)
    assert told[5].average_accuracy == last["average_accuracy"]  # to the last bit
    assert told[5].average_forgetting == last["average_forgetting"]
    assert table.told(Record(6)) == Record(6), "it was not evaluated"
