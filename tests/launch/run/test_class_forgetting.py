"""What each class has lost, as launch.results reads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import SMALL, simulated

from launch.run.stored import read_run


def lost_at_the_end(folder: Path) -> tuple[dict[str, float], dict[str, object]]:
    """Of each class: the last value of its curve, and what summary.json says."""
    run = read_run(folder)
    assert run is not None
    told = run.summary["class_forgetting"]
    assert isinstance(told, dict)
    curves = {name: curve for name, curve in run.curves.items() if name.startswith("forgetting/")}
    assert all(curve[-1][0] == run.rounds for curve in curves.values())
    return {name.removeprefix("forgetting/"): curve[-1][1] for name, curve in curves.items()}, told


def test_it_is_what_the_summary_tells(tmp_path: Path) -> None:
    folder = simulated({**SMALL, "rounds": 4, "partition": "Shards", "cohort": 2, "lr": 0.3}, tmp_path)
    ours, theirs = lost_at_the_end(folder)
    assert ours == pytest.approx(theirs) and len(ours) == 10 and max(ours.values()) > 0.05
    run = read_run(folder)
    assert run is not None
    assert [r for r, _ in run.curves["forgetting/3"]] == [1, 2, 3, 4] and run.curves["forgetting/3"][0][1] == 0


def test_with_tasks_it_counts_anew_as_the_run_has_it(tmp_path: Path) -> None:
    """In a domain scenario every task has other test samples of each label."""
    tasks = {"stream": "ClassGroups", "stream.tasks": 2, "stream.size": 5, "stream.scenario": "domain"}
    given = {**SMALL, **tasks, "stream.task_rounds": 2, "rounds": 4, "partition": "IID", "lr": 0.3}
    ours, theirs = lost_at_the_end(simulated(given, tmp_path))
    assert ours == pytest.approx({label: value for label, value in theirs.items() if value is not None})
    assert len(ours) == 5
    unfinished = simulated({**given, "name": "unfinished"}, tmp_path)
    (unfinished / "summary.json").unlink()
    run = read_run(unfinished)
    assert run is not None and "forgetting/3" not in run.curves
