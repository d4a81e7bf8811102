"""metrics.csv: what is written is read back."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

from fl_ddp.results.metrics import Columns, Metrics, Record

COLUMNS = Columns(
    ("cat", "dog"), ("training", "evaluation"), everybody=True, degree=True, tasks=2, reported=("pull", "gap")
)
WHOLE = Record(
    round=2,
    cohort=10,
    traffic_up_bytes=1000,
    traffic_down_bytes=2000,
    padded_lanes=0.25,
    train_loss=1 / 3,
    accuracy=1 / 7,
    loss=1 / 11,
    initial_accuracy=1 / 13,
    personalised_accuracy=1 / 17,
    initial_accuracy_cohort=1 / 19,
    personalised_accuracy_all=1 / 23,
    forgetting_degree=-1 / 59,
    class_degree=(-1 / 61, 1 / 67),
    class_accuracy=(1 / 29, 1 / 31),
    average_accuracy=1 / 79,
    average_forgetting=-1 / 83,
    reported={"pull": 1 / 71, "gap": -1 / 73},
    seconds={"training": 1 / 37, "evaluation": 1 / 41},
    wall=1e9 + 1 / 3,
)
BARE = Record(3, 11, 1001, 2001, 0.5, seconds={"training": 1 / 43}, wall=1e9 + 1)


def test_every_field_of_a_record_comes_back_from_a_column_of_its_own(tmp_path: Path) -> None:
    """But for who took part and the accuracies on tasks, which have files of their own."""
    here = [each.name for each in fields(Record) if each.name not in ("clients", "task_accuracy")]
    assert len({str(getattr(WHOLE, name)) for name in here}) == len(here)
    file = Metrics(tmp_path / "metrics.csv", COLUMNS, None)
    for record in (WHOLE, BARE):
        file.append(record, 1 / 47, 1 / 53)
    file.file.close()
    again = Metrics(tmp_path / "metrics.csv", COLUMNS, file.file.state())
    again.file.close()
    assert again.earlier == [WHOLE, BARE]


def test_only_tasks_that_are_tested_by_their_accuracy_have_columns_of_averages() -> None:
    averages = {"average_accuracy", "average_forgetting"}
    assert averages <= {*COLUMNS.names}
    assert not averages & {*replace(COLUMNS, tasks=1).names, *replace(COLUMNS, score="mae").names}
