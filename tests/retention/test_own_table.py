"""own_tasks.csv."""

from __future__ import annotations

from math import nan
from pathlib import Path

import pytest

from fl_ddp.retention.own_table import OwnTask, OwnTaskTable


def test_a_row_for_each_client_and_task_at_the_end_of_each(tmp_path: Path) -> None:
    table = OwnTaskTable(tmp_path / "own_tasks.csv", None)
    assert table.newest == -1
    table.add(3, 1, [OwnTask(0, 1, 4, 0.25)])
    table.add(6, 2, [OwnTask(0, 1, 4, 0.5), OwnTask(5, 2, 3, 1.0)])
    lines = (tmp_path / "own_tasks.csv").read_text().splitlines()
    assert lines == [
        "round,task_trained,client,task_tested,test_samples,accuracy", "3,1,0,1,4,0.25", "6,2,0,1,4,0.5",
        "6,2,5,2,3,1.0",
    ]  # fmt: skip
    assert table.newest == 6
    assert table.clients == {
        0: {1: [0.25], 2: [0.5, pytest.approx(nan, nan_ok=True)]},
        5: {2: [pytest.approx(nan, nan_ok=True), 1.0]},
    }


def test_a_checkpoint_cuts_later_rows_off(tmp_path: Path) -> None:
    table = OwnTaskTable(tmp_path / "own_tasks.csv", None)
    table.add(3, 1, [OwnTask(0, 1, 4, 0.25)])
    state = table.file.state()
    table.add(6, 1, [OwnTask(0, 1, 4, 0.5)])
    assert table.clients == {0: {1: [0.5]}}, "of a task that goes on the newest end counts"
    table.file.close()
    again = OwnTaskTable(tmp_path / "own_tasks.csv", state)
    assert again.clients == {0: {1: [0.25]}} and again.newest == 3
    assert (tmp_path / "own_tasks.csv").read_text().count("\n") == 2
