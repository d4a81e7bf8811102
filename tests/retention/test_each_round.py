"""What a run tells after each evaluation of the tasks so far: everywhere the same, and at its end the summary's."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from launching import SMALL, simulated
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import fl_ddp
from fl_ddp.api import Record
from fl_ddp.results.metrics import Columns
from fl_ddp.results.tensorboard import charts
from launch.numbers.metric import parse_metric
from launch.run.cost import read_off_run
from launch.run.stored import read_run

BOTH = ("average_accuracy", "average_forgetting")
TASKS: dict[str, object] = {
    **SMALL, "partition": "IID", "stream": "ClassGroups", "stream.tasks": 3, "stream.size": 3, "stream.task_rounds": 3,
    "rounds": 9, "eval_every": 2,
}  # fmt: skip
"""Evaluated after rounds 2, 3, 4, 6, 8 and 9; tasks end after 3, 6 and 9."""
EVALUATED = [2, 3, 4, 6, 8, 9]

Course = dict[int, tuple[float | None, ...]]
"""Both averages by round."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(TASKS, tmp_path_factory.mktemp("tasks"))


def told(run: Path) -> Course:
    """What metrics.csv has, of rounds from 1 on in which it has something."""
    with (run / "metrics.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    rows = {int(row["round"]): tuple(float(row[name]) if row[name] else None for name in BOTH) for row in table}
    assert rows.pop(0) == (None, None), "of no task so far"
    return {finished: both for finished, both in rows.items() if both != (None, None)}


def by_hand(run: Path) -> Course:
    """The same from what tasks.csv has, by the definitions."""
    accuracy: dict[tuple[int, int, int], float] = {}
    with (run / "tasks.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            key = int(row["round"]), int(row["task_trained"]), int(row["task_tested"])
            accuracy[key] = float(row["accuracy"])
    found: Course = {}
    for finished, k in sorted({(finished, task) for finished, task, _ in accuracy if finished}):
        now = [accuracy[finished, k, j] for j in range(1, k + 1)]
        lost = [max(accuracy[3 * end, end, j] for end in range(j, k)) - now[j - 1] for j in range(1, k)]
        found[finished] = sum(now) / k, sum(lost) / len(lost) if lost else None
    return found


def test_the_columns_are_the_averages_over_the_tasks_so_far(run: Path) -> None:
    found, expected = told(run), by_hand(run)
    assert list(found) == list(expected) == EVALUATED
    for finished, both in expected.items():
        assert found[finished] == pytest.approx(both), finished
    assert [found[finished][1] is None for finished in EVALUATED] == [True, True, False, False, False, False]
    assert max(both[1] or 0 for both in found.values()) > 0.1, "something is forgotten"


def test_the_last_round_is_the_summarys_to_the_last_bit(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    assert told(run)[9] == tuple(summary[name] for name in BOTH)


def test_tensorboard_has_them(run: Path) -> None:
    events = EventAccumulator(str(run)).Reload()
    curves = [
        {each.step: each.value for each in events.Scalars(f"task_{name}/average")}
        for name in ("accuracy", "forgetting")
    ]
    for place, curve in enumerate(curves):
        known = {finished: both[place] for finished, both in told(run).items() if both[place] is not None}
        assert curve == pytest.approx(known)
    shown = charts(Columns((), (), tasks=3))["Accuracy on each task"]
    assert shown["average over the tasks so far"] == ("Multiline", ["task_accuracy/average$"])
    assert shown["average forgetting of the tasks before"] == ("Multiline", ["task_forgetting/average$"])


def test_launchers_read_them_of_any_round(run: Path) -> None:
    stored = read_run(run)
    assert stored is not None
    for place, name in enumerate(BOTH):
        known = {finished: both[place] for finished, both in told(run).items() if both[place] is not None}
        assert dict(stored.curve(name)) == known
        for finished, value in known.items():
            read = read_off_run(parse_metric(f"final@{finished} of {name}"), stored, ended=True)
            assert read is not None and value is not None and read.value == pytest.approx(100 * value)


def test_a_callback_has_them_in_the_record_of_the_round(tmp_path: Path) -> None:
    seen: list[Record] = []
    result = fl_ddp.simulate(TASKS, out=str(tmp_path), callbacks=[seen.append])
    records = {each.round: (each.average_accuracy, each.average_forgetting) for each in seen}
    assert {r: both for r, both in records.items() if both != (None, None)} == told(Path(str(result["folder"])))
    assert len(records) == 10


@pytest.mark.parametrize("last", [4, 5])
def test_a_run_that_goes_on_tells_what_one_that_never_stopped_does(run: Path, last: int, tmp_path: Path) -> None:
    part = fl_ddp.simulate(TASKS, out=str(tmp_path), callbacks=[lambda record: record.round == last])
    folder = Path(str(part["folder"]))
    stored = read_run(folder)
    assert stored is not None
    for name in BOTH:  # after round 5 nothing was tested until it was known to be the last
        assert stored.curve(name)[-1] == (last, part[name])
    events = EventAccumulator(str(folder)).Reload()
    assert events.Scalars("task_forgetting/average")[-1].step == last
    again = fl_ddp.simulate(resume=str(folder))
    assert told(folder) == told(run) and [again[name] for name in BOTH] == list(told(run)[9])
    steps = [each.step for each in EventAccumulator(str(folder)).Reload().Scalars("task_forgetting/average")]
    assert steps == [4, 6, 8, 9]


def test_a_run_without_tasks_has_no_such_columns(tmp_path: Path) -> None:
    alike = simulated({**SMALL, "rounds": 1}, tmp_path)
    head = (alike / "metrics.csv").read_text().splitlines()[0].split(",")
    assert "accuracy" in head and not {*BOTH} & {*head}
