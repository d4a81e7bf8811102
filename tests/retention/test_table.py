"""tasks.csv."""

from __future__ import annotations

from pathlib import Path

from fl_ddp.retention.table import TaskTable

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
    assert table.rounds == {0: (0.1, 0.25), 3: (0.5,), 4: (0.75, 0.125)}


def test_a_checkpoint_cuts_later_rows_off(tmp_path: Path) -> None:
    table = TaskTable(tmp_path / "tasks.csv", None, SIZES)
    table.add(1, 1, (0.5,))
    state = table.file.state()
    table.add(2, 1, (0.75, 0.25))
    table.file.close()
    again = TaskTable(tmp_path / "tasks.csv", state, SIZES)
    assert again.matrix == {1: (0.5,)} and again.rounds == {1: (0.5,)}
    assert (tmp_path / "tasks.csv").read_text().count("\n") == 2
