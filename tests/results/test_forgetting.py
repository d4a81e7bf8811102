"""Forgetting of each class, from a history of accuracies made by hand."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from launching import SMALL, simulated
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fl_ddp.results.forgetting import average, forgetting
from fl_ddp.results.metrics import Columns, Record
from fl_ddp.results.tracking import History, Tracker

CLASSES = ("never lost", "lost", "lost and found", "not in the test set")
ACCURACIES = {  # by round; round 0 is the initial model, whose luck counts for nothing
    0: (1.0, 1.0, 1.0, math.nan),
    2: (0.25, 0.5, 0.75, math.nan),
    4: (0.5, 0.75, 0.25, math.nan),
    6: (0.5, 0.125, 1.0, math.nan),
    8: (0.75, 0.25, 0.5, math.nan),
}
FORGETTING = {2: (0, 0, 0), 4: (0, 0, 0.5), 6: (0, 0.625, 0), 8: (0, 0.5, 0.5)}


def record(round: int) -> Record:
    """Odd rounds are not evaluated."""
    plain = Record(round, 5, 10, 20, 0.0)
    if round not in ACCURACIES:
        return plain
    return Record(round, 5, 10, 20, 0.0, accuracy=0.5, class_accuracy=ACCURACIES[round])


def test_forgetting_is_the_best_so_far_less_the_present() -> None:
    assert forgetting((0.75, 0.5), (0.25, 0.5)) == (0.5, 0)
    assert average((0.5, 0, math.nan)) == 0.25
    assert average((math.nan,)) is None


def test_history_forgets_class_by_class_from_round_1_on() -> None:
    history = History({}, knows=False)
    for round in range(9):
        standing = history.add(record(round))
        assert standing.class_forgetting[:3] == FORGETTING.get(round, ())
        assert [math.isnan(value) for value in standing.class_forgetting[3:]] == [True] * (round in FORGETTING)
        assert standing.forgetting == (sum(FORGETTING[round]) / 3 if round in FORGETTING else None)
        assert round not in FORGETTING or history.standing is standing


def test_what_a_class_knew_of_other_test_samples_counts_no_more() -> None:
    """Of two classes there is more from round 5 on, first evaluated in round 6; of one from round 7 on, in round 8."""
    history = History({5: np.array([0, 1]), 7: np.array([2])}, knows=False)
    lost = {round: history.add(record(round)).class_forgetting[:3] for round in range(9)}
    assert lost[6] == (0, 0, 0) and lost[8] == (0, 0, 0)


@pytest.mark.parametrize("cut", [1, 5, 8])
def test_what_was_best_before_a_resume_still_counts(tmp_path: Path, cut: int) -> None:
    run = Tracker(tmp_path, Columns(CLASSES, ()), {})
    for round in range(cut):
        run.record(record(round))
    again = Tracker(tmp_path, Columns(CLASSES, ()), {}, run.file.state())
    for round in range(cut, 9):
        again.record(record(round))
    with (tmp_path / "metrics.csv").open(newline="") as file:
        cells = [row["forgetting"] for row in csv.DictReader(file)]
    assert cells == [str(sum(FORGETTING[r]) / 3) if r in FORGETTING else "" for r in range(9)]
    events = EventAccumulator(str(tmp_path)).Reload()
    for tag, values in (
        ("forgetting/average", [sum(lost) / 3 for lost in FORGETTING.values()]),
        *((f"forgetting/{name}", [lost[i] for lost in FORGETTING.values()]) for i, name in enumerate(CLASSES[:3])),
    ):
        assert {e.step: e.value for e in events.Scalars(tag)} == pytest.approx(
            dict(zip(FORGETTING, values, strict=True))
        )
    assert "forgetting/not in the test set" not in events.Tags()["scalars"]


def test_a_model_that_stays_forgets_nothing_of_a_stream(tmp_path: Path) -> None:
    """Whatever classes its tasks' test sets have."""
    settings = {**SMALL, "stream": "Permuted", "stream.task_rounds": 2, "stream.tasks": 3, "rounds": 6, "lr": 1e-12}
    with (simulated({**settings, "compile": False, "figures": False}, tmp_path) / "metrics.csv").open(
        newline=""
    ) as file:
        rows = [row for row in csv.DictReader(file) if row["round"] != "0"]
    assert {row["forgetting"] for row in rows} == {"0.0"} and len({row["accuracy"] for row in rows}) == 3


def test_a_class_with_other_test_samples_begins_anew_in_their_first_round() -> None:
    history = History({3: [0]}, knows=False)
    knew = [0.9, 0.4, 0.1]
    known = (Record(r, 5, 10, 20, 0.0, accuracy=a, class_accuracy=(a,)) for r, a in enumerate(knew, 2))
    assert [history.add(each).forgetting for each in known] == [0, 0, 0.4 - 0.1]
