"""launch.results: measures that are no number, or an infinite one."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from math import isnan, nan
from pathlib import Path

import pytest
from showing import Showing
from written_runs import Written

from launch.numbers.metric import parse_metric
from launch.numbers.read_off import end_of, smoothed


def measured(gaps: Sequence[float | None], *, seed: int = 0, column: str = "measure/gap", name: str = "a") -> Path:
    """A run whose function of the user's gave this in each round; None where it was not asked."""
    run = Written({"method": "FedAvg" if name == "a" else "FedProx", "seed": seed}, [0.5] * len(gaps))
    folder = run.at(Path("runs", f"{name}{seed}"))
    head, *rows = (folder / "metrics.csv").read_text().splitlines()
    cells = ["" if each is None else repr(each) for each in gaps]
    rows = [f"{row},{cell}" for row, cell in zip(rows, cells, strict=True)]
    (folder / "metrics.csv").write_text("\n".join([f"{head},{column}", *rows]) + "\n")
    return folder


def row(show: Showing, *metrics: str, more: Sequence[str] = ()) -> Mapping[str, str]:
    """The last line of the table, by its columns."""
    asked = [word for metric in ("final", *metrics) for word in ("--metric", metric)]
    code, _, err = show("runs", *asked, *more)
    assert (code, err) == (0, "")
    lines = [line.strip("| ") for line in Path("runs", "results.md").read_text().splitlines() if line.startswith("|")]
    return dict(zip(lines[0].split(" | "), lines[-1].split(" | "), strict=True))


def table() -> list[dict[str, str]]:
    with Path("runs", "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("column", ["measure/gap", "method/gap"])
def test_a_last_round_without_a_number_has_no_older_one(show: Showing, column: str) -> None:
    measured([4.0, 2.0, 3.0, nan], column=column)
    metrics = [f"{each} of {column}" for each in ("final", "final@4", "final@3", "best", "running_mean", "last3")]
    assert [row(show, *metrics)[each] for each in metrics] == ["-", "-", "3.0000", "4.0000", "3.0000", "2.5000"]
    assert [table()[0][f"final_of_{column}_{part}"] for part in ("mean", "runs")] == ["", "0"]


def test_seeds_that_end_without_a_number_are_told(show: Showing) -> None:
    measured([4.0, 2.0], seed=0)
    measured([3.0, nan], seed=1)
    metrics = ("final of measure/gap", "final@2 of measure/gap", "best of -measure/gap")
    found = row(show, *metrics)
    assert [found[each] for each in metrics] == ["2.0000 (1 of 2)", "2.0000 (1 of 2)", "2.5000 ± 0.7071"]


def test_rounds_that_were_not_measured_are_passed_over(show: Showing) -> None:
    measured([4.0, 2.0, None])
    assert row(show, "final of measure/gap")["final of measure/gap"] == "2.0000"


def test_a_class_that_is_not_tested_any_more_has_its_last_accuracy(show: Showing) -> None:
    measured([0.75, 0.5, nan], column="accuracy/cat")
    metrics = ("final of accuracy/cat", "final of forgetting/cat")
    assert [*row(show, *metrics).values()][4:6] == ["50.00", "25.00"]


def test_runs_that_are_the_same_are_so_where_they_have_no_number(show: Showing) -> None:
    measured([nan, 2.0])
    shutil.copytree("runs/a0", "runs/again")
    assert row(show, "final of measure/gap")["seeds"] == "1"
    other = Path("runs/again/metrics.csv")
    other.write_text(other.read_text().replace("nan", "1.0"))
    assert "measure/gap of round 1 is nan and 1, though settings and seed are the same" in show("runs")[2]


def test_a_last_model_between_two_tests_may_have_no_number(show: Showing) -> None:
    folder = measured([4.0, 2.0, None])
    (folder / "summary.json").write_text(json.dumps({"rounds": 3, "measure/gap": None}))
    assert row(show, "final of measure/gap")["final of measure/gap"] == "-"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("final", [nan, 2, nan, 1, nan, nan, nan]),
        ("best", [nan, 2, 2, 2, 2, 2, 2]),
        ("running_mean", [nan, 2, 2, 1.5, 1.5, 1.5, 1.5]),
        ("last2", [nan, 2, 2, 1, 1, nan, nan]),
        ("last3", [nan, 2, 2, 1.5, 1, 1, nan]),
        ("ema0.5", [nan, 2, 2, 1.2, 1.2, 1.2, 1.2]),
    ],
)
def test_what_is_no_number_is_passed_over_in_a_course(text: str, expected: Sequence[float]) -> None:
    metric, curve = parse_metric(f"{text} of measure/gap"), list(enumerate([nan, 2.0, nan, 1.0, nan, nan, nan], 1))
    assert smoothed(metric, curve) == pytest.approx(expected, nan_ok=True)
    assert end_of(metric, curve, ended=True) == (None if isnan(expected[-1]) else pytest.approx(expected[-1]))
