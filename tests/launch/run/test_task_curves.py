"""What a run's tasks.csv tells, over rounds."""

from __future__ import annotations

from pathlib import Path

import pytest

from fl_ddp.errors import ConfigError
from launch.numbers.metric import parse_metric, quantity_name
from launch.run.task_curves import task_curves

ROWS = """round,task_trained,task_tested,test_samples,accuracy
0,0,1,30,0.1
0,0,2,10,0.2
1,1,1,30,0.5
2,1,1,30,0.9
2,1,2,10,0.3
3,2,1,30,0.4
3,2,2,10,0.6
4,2,1,30,0.7
4,2,2,10,0.8
5,2,1"""


def test_curves_of_tasks_begin_when_they_are_trained(tmp_path: Path) -> None:
    (tmp_path / "tasks.csv").write_text(ROWS)
    found = task_curves(tmp_path)
    assert found["task_accuracy/1"] == [(1, 0.5), (2, 0.9), (3, 0.4), (4, 0.7)]
    assert found["task_accuracy/2"] == [(3, 0.6), (4, 0.8)], "a row that is being written is left out"
    assert dict(found["average_accuracy"]) == pytest.approx({1: 0.5, 2: 0.9, 3: 0.5, 4: 0.75})
    assert dict(found["incremental_accuracy"]) == pytest.approx({1: 0.5, 2: 0.9, 3: 0.675, 4: 0.8125})
    assert dict(found["average_forgetting"]) == pytest.approx({3: 0.5, 4: 0.2})
    assert dict(found["backward_transfer"]) == pytest.approx({3: -0.5, 4: -0.2})
    assert dict(found["forward_transfer"]) == pytest.approx({3: 0.1, 4: 0.1})


def test_a_run_that_does_not_tell_the_sizes_of_tests_has_no_accuracy_on_all_together(tmp_path: Path) -> None:
    lines = [line.split(",") for line in ROWS.splitlines()]
    (tmp_path / "tasks.csv").write_text("\n".join(",".join(cells[:3] + cells[4:]) for cells in lines))
    found = task_curves(tmp_path)
    assert "incremental_accuracy" not in found and found["average_accuracy"]


OWN_ROWS = """round,task_trained,client,task_tested,test_samples,accuracy
2,1,0,1,10,0.5
2,1,1,1,20,0.75
4,2,0,1,10,0.25
4,2,0,2,10,0.75
4,2,1,1,20,1.0
4,2,2,2,5,0.5
6,3,0"""


def test_what_clients_forget_is_known_at_the_ends_of_tasks(tmp_path: Path) -> None:
    (tmp_path / "own_tasks.csv").write_text(OWN_ROWS)
    found = task_curves(tmp_path)
    assert dict(found["own_average_accuracy"]) == pytest.approx({2: 0.625, 4: (0.5 + 1 + 0.5) / 3})
    assert dict(found["own_average_forgetting"]) == pytest.approx({4: ((0.5 - 0.25) + (0.75 - 1)) / 2})
    forgotten = parse_metric("final of own_average_forgetting")
    assert (quantity_name(forgotten), forgotten.less_is_better) == ("own average forgetting", True)
    assert not parse_metric("best of own_average_accuracy").less_is_better


def test_a_run_without_tasks_has_no_curves_of_them(tmp_path: Path) -> None:
    assert task_curves(tmp_path) == {}
    (tmp_path / "tasks.csv").write_text("round,task_trained\n1,2\n")
    with pytest.raises(ConfigError, match="is not what a run writes"):
        task_curves(tmp_path)


def test_metrics_of_tasks_and_what_they_are_called() -> None:
    on_task = parse_metric("last10 of task_accuracy/3")
    assert (on_task.quantity, quantity_name(on_task)) == ("task_accuracy/3", "accuracy on task 3")
    assert not on_task.less_is_better
    forgotten = parse_metric("final of average_forgetting")
    assert (quantity_name(forgotten), forgotten.less_is_better) == ("average forgetting", True)
    assert not parse_metric("final of backward_transfer").less_is_better
    for text in ("final of task_accuracy/0", "final of task_accuracy/first", "final of task_accuracy"):
        with pytest.raises(ConfigError, match="is no metric"):
            parse_metric(text)
