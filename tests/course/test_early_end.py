"""Runs that end before their last round, by rule or by a callback, and go on to the bits of one that did not."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from launching import SMALL, checkpoints, finished, numbers, resumed, simulated

RUN = {**SMALL, "rounds": 8, "lr": 0.3}


def rounds_of(run: Path) -> list[dict[str, str]]:
    """The rows of metrics.csv."""
    with (run / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def summary_of(run: Path) -> dict[str, object]:
    """What summary.json holds."""
    content: dict[str, object] = json.loads((run / "summary.json").read_text())
    return content


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of all rounds."""
    return simulated(RUN, tmp_path_factory.mktemp("whole"))


def test_a_run_ends_where_it_has_reached_enough_and_goes_on_to_the_same_bits(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    course = [float(row["accuracy"]) for row in rounds_of(whole)]
    enough = sorted(course)[4]
    first = next(i for i, value in enumerate(course, 1) if value >= enough)
    assert 1 < first < 8
    run = simulated({**RUN, "stop_at": f"accuracy={enough}", "checkpoint_every": 100}, tmp_path)
    assert len(rounds_of(run)) == first == summary_of(run)["rounds"]
    assert summary_of(run)["accuracy"] == course[first - 1]
    assert summary_of(run)["stopped"] == f"accuracy {course[first - 1]:.4f} has reached {enough:g}"
    assert checkpoints(run)[-1] == f"round_{first:06}"
    assert f"ended after round {first}: accuracy" in capsys.readouterr().out
    resumed(run)
    assert len(rounds_of(run)) == first == summary_of(run)["rounds"], "the rule still holds"
    resumed(run, stop_at=None)
    assert numbers(run) == numbers(whole)
    assert summary_of(run)["stopped"] is None


def test_patience_ends_a_run(whole: Path, tmp_path: Path) -> None:
    course = [float(row["accuracy"]) for row in rounds_of(whole)]
    best = [course.index(max(course[: i + 1])) for i in range(8)]
    due = next(i + 1 for i in range(8) if i - best[i] >= 1)
    assert due < 8
    run = simulated({**RUN, "patience": 1}, tmp_path)
    assert len(rounds_of(run)) == due
    resumed(run, patience=8)
    assert numbers(run) == numbers(whole)


def test_the_model_that_a_run_ends_with_is_evaluated(whole: Path, tmp_path: Path) -> None:
    """Evaluations every third round see round 3 and 6; rules look at these alone."""
    course = [float(row["accuracy"]) for row in rounds_of(whole)]
    run = simulated({**RUN, "eval_every": 3, "stop_at": f"accuracy={min(course[2], course[5])}"}, tmp_path)
    last = len(rounds_of(run))
    assert last in (3, 6) and summary_of(run)["accuracy"] == course[last - 1]


@pytest.mark.slow
def test_two_ranks_end_alike(whole: Path, tmp_path: Path) -> None:
    course = [float(row["accuracy"]) for row in rounds_of(whole)]
    first = next(i for i, value in enumerate(course, 1) if value >= course[3])
    finished({**RUN, "stop_at": f"accuracy={course[3]}", "out": tmp_path}, 2, tmp_path)
    run = tmp_path / "run"
    assert len(rounds_of(run)) == first
    finished({"resume": run, "stop_at": "null"}, 2, tmp_path)
    assert numbers(run) == numbers(whole)
