"""What callbacks see of a stream's tasks."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from launching import SMALL, one_thread

import fl_ddp
from fl_ddp.api import Record


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One thread."""
    with one_thread():
        yield


def test_callbacks_see_accuracies_on_tasks_and_may_stop_where_one_is_forgotten(tmp_path: Path) -> None:
    """At a task's end, and before the first, those of all tasks; in between of those so far."""
    seen: list[Record] = []
    tasks = {**SMALL, "stream": {"name": "Permuted", "tasks": 3, "task_rounds": 2}, "rounds": 6, "local_epochs": 2}
    whole = fl_ddp.simulate(tasks, eval_every=1, out=str(tmp_path / "a"), callbacks=[seen.append])
    with (Path(str(whole["folder"])) / "tasks.csv").open() as file:
        rows = [(int(row["round"]), float(row["accuracy"])) for row in csv.DictReader(file)]
    assert [(each.round, value) for each in seen for value in each.task_accuracy] == rows
    assert [len(each.task_accuracy) for each in seen] == [3, 1, 3, 2, 3, 3, 3]
    assert [each.task for each in seen] == [1, 1, 1, 2, 2, 3, 3]
    assert [each.round for each in seen if each.ends_task] == [2, 4]
    limit = sum(seen[i].task_accuracy[0] for i in (2, 4)) / 2

    def forgot(record: Record) -> bool:
        return record.round > 2 and record.task_accuracy[0] < limit

    part = fl_ddp.simulate(tasks, eval_every=1, out=str(tmp_path / "b"), callbacks=[forgot])
    assert part["rounds"] == next(each.round for each in seen if forgot(each)) < 6
    fewer: list[Record] = []
    fl_ddp.simulate({**tasks, "rounds": 5}, eval_every=2, out=str(tmp_path / "d"), callbacks=[fewer.append])
    assert [len(each.task_accuracy) for each in fewer] == [3, 0, 3, 0, 3, 3], (
        "none without an evaluation, all at the end"
    )
    alike: list[Record] = []
    fl_ddp.simulate(SMALL, out=str(tmp_path / "c"), callbacks=[alike.append])
    assert all(each.accuracy is not None and each.task_accuracy == () for each in alike)
