"""launch.results: what must not be read over rounds of several tasks, which are other tests."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import SMALL, simulated
from showing import Showing

from launch.run.stored import read_run

ACCEPTED = "accepted: final, or final@50; last10 of rounds of one task"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three tasks of two rounds, whose clients are tested, too."""
    tasks = {"stream": "Permuted", "stream.tasks": 3, "stream.task_rounds": 2, "rounds": 6}
    own = {"local_test": 0.3, "partition": "IID", "clients": 4, "cohort": 4}
    return simulated({**SMALL, **tasks, **own}, tmp_path_factory.mktemp("tasks"))


@pytest.mark.parametrize(
    ("quantity", "why"),
    [
        ("accuracy", "the tasks so far are other tests in another task, and those of the first one are easiest"),
        ("own_average_accuracy", "the tasks so far are other tests in another task, and those of the first one are ea"),
        ("average_forgetting", "it is of the tasks so far, which are others in another task"),
        ("own_average_forgetting", "it is of the tasks so far, which are others in another task"),
        ("backward_transfer", "it is of the tasks so far, which are others in another task"),
        ("initial", "it is of the present task, whose tests are others in another task"),
        ("personalised", "it is of the present task, whose tests are others in another task"),
        ("worst_initial", "it is of the present task, whose tests are others in another task"),
        (
            "deviation_personalised",
            "it is of the present task, whose tests are others in another task; accepted: final",
        ),
    ],
)
def test_different_tests_are_not_put_together(show: Showing, folder: Path, quantity: str, why: str) -> None:
    run = read_run(folder)
    column = {"initial": "initial_accuracy", "personalised": "personalised_accuracy"}.get(quantity, quantity)
    assert run and run.curve(column)
    for asked in ("best", "last4", "running_mean", "ema0.9", "rounds_to 0.5"):
        code, _, err = show(str(folder), "--metric", f"{asked} of {quantity}", "--out", "made")
        assert code == 2 and err.startswith(f"results: error: --metric: {asked} of {quantity}: {why}"), err
        assert ACCEPTED in err
    for asked in ("final", "final@2", "final@4", "last2", "best@2"):
        assert show(str(folder), "--metric", f"{asked} of {quantity}", "--out", "made")[0] == 0, asked
