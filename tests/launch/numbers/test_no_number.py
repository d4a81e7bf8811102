"""launch.results: measures that are no number, or an infinite one."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from math import inf, isnan, nan
from pathlib import Path

import pytest
from showing import Showing
from written_runs import Written

from launch.numbers.metric import parse_metric
from launch.numbers.read_off import end_of, smoothed
from launch.numbers.reading import Reading, standing
from launch.numbers.spread import drawn_mean


def measured(gaps: Sequence[float | None], *, seed: int = 0, column: str = "measure/gap", name: str = "a") -> Path:
    """A run whose function of the user's gave this in each round; None where it was not asked."""
    run = Written({"method": "FedAvg" if name == "a" else "FedProx", "seed": seed}, [0.5] * len(gaps))
    folder = run.at(Path("runs", f"{name}{seed}"))
    head, *rows = (folder / "metrics.csv").read_text().splitlines()
    cells = ["" if each is None else repr(each) for each in gaps]
    rows = [f"{row},{cell}" for row, cell in zip(rows, cells, strict=True)]
    (folder / "metrics.csv").write_text("\n".join([f"{head},{column}", *rows]) + "\n")
    return folder


def row(show: Showing, *metrics: str) -> Mapping[str, str]:
    """The last line of the table, by its columns."""
    asked = [word for metric in ("final", *metrics) for word in ("--metric", metric)]
    code, _, err = show("runs", *asked)
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


def test_infinities_of_both_signs_have_no_mean_and_spoil_no_table(show: Showing) -> None:
    for seed, gap in enumerate((inf, -inf)):
        measured([1.0, gap], seed=seed)
        measured([1.0, 2.0], seed=seed, name="b")
    code, out, err = show("runs", "--metric", "final", "--metric", "final of measure/gap")
    assert (code, err) == (0, "")
    assert [each["final_of_measure/gap_mean"] for each in table()] == ["", "2.0"]
    cells = [line.split()[7:] for line in out.splitlines()[4:6]]
    assert [each[0] for each in cells] == ["-", "2.0000"]


def test_a_setting_without_a_mean_is_not_best() -> None:
    none, some = [Reading(inf), Reading(-inf)], [Reading(-5.0), Reading(5.0)]
    for less_is_better in (False, True):
        places = [standing(each, less_is_better=less_is_better) for each in (some, none)]
        assert places[0] > places[1]


@pytest.mark.parametrize(
    ("ours", "why"),
    [
        ((inf, 1.0), "a seed in which both are infinite"),
        ((2.0, inf), "differences that are infinite to both sides"),
        ((2.0, 3.0), "-inf"),
    ],
)
def test_differences_of_infinite_numbers_are_none(show: Showing, ours: Sequence[float], why: str) -> None:
    for seed, (gap, other) in enumerate(zip(ours, (inf, 1.0), strict=True)):
        measured([other], seed=seed)
        measured([gap], seed=seed, name="b")
    metric = "final of measure/gap"
    asked = ("--metric", "final", "--metric", metric, "--against", "method=FedAvg")
    code, out, err = show("runs", *asked)
    told = f"FedProx: nothing to compare it with, {why} (by {metric})"
    assert (code, err) == (0, "") and (told in out or why == "-inf") and "nan" not in out
    assert (why in out.splitlines()[5]) == (why == "-inf")


def test_a_curve_and_a_mean_of_infinities_of_both_signs_are_not_drawn(show: Showing) -> None:
    for seed, gap in enumerate((inf, -inf)):
        measured([1.0, gap], seed=seed)
        measured([1.0, 2.0], seed=seed, name="b")
    code, _, err = show("runs", "--metric", "final of measure/gap")
    assert (code, err) == (0, "") and table()[0]["final_of_measure/gap_mean"] == ""
    assert {file.name for file in Path("runs").glob("*.png")} == {"curves.png", "metric_over_method.png"}


def test_a_number_that_is_none_is_drawn_nowhere() -> None:
    assert isnan(drawn_mean([inf, -inf])) and isnan(drawn_mean([])) and drawn_mean([1.0, 2.0]) == 1.5
