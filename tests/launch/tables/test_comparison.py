"""Numbers of a table read off runs, its ratios and differences, and what its orderings are judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_table import write_table

from launch.numbers.metric import parse_metric
from launch.numbers.reading import Reading
from launch.run.stored import Run
from launch.tables.comparison import FilledRow, compare
from launch.tables.report import terminal
from launch.tables.rows import Column, Table
from launch.tables.yaml_file import load_table


def run(*accuracies: float) -> Run:
    """A finished run with an accuracy for each round."""
    rounds, curve = len(accuracies), list(enumerate(accuracies, 1))
    return Run(Path("run"), {}, rounds, rounds, {"accuracy": curve}, [], {"rounds": rounds})


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.chdir(tmp_path)
    return load_table(write_table(tmp_path))


def filled(table: Table, runs: Mapping[str, Sequence[Run]]) -> Mapping[str, FilledRow]:
    by_seed = {f"digits/{row}": dict(enumerate(each)) for row, each in runs.items()}
    return {each.row.name: each for each in compare(table, by_seed, small=False).rows}


def values(row: FilledRow, column: str) -> list[dict[int, float]]:
    """A column's numbers by metric and seed."""
    (cell,) = (cell for cell in row.cells if cell.column == column)
    return [{seed: reading.value for seed, reading in each.by_seed.items()} for each in cell.numbers]


def test_a_column_has_its_metrics_and_the_difference_of_the_first(table: Table) -> None:
    row = filled(table, {"fedavg": [run(0.1, 0.5), run(0.2, 0.4)]})["fedavg"]
    early, end = row.cells[:2]
    assert values(row, "early") == [{0: pytest.approx(30), 1: pytest.approx(30)}, {0: 50, 1: 40}]
    assert early.difference == pytest.approx(30 - 20) and end.difference == pytest.approx(45 - 50)


def test_a_ratio_is_taken_with_the_run_of_the_same_seed(table: Table) -> None:
    rows = filled(table, {"fedavg": [run(0.0, 0.1, 0.1), run(0.1)], "slow": [run(0.0, 0.0, 0.0, 0.1), run(0.0, 0.1)]})
    assert values(rows["slow"], "rounds") == [{0: 4, 1: 2}]
    assert values(rows["slow"], "ratio") == [{0: 2, 1: 2}]
    assert values(rows["fedavg"], "ratio") == [{0: 1, 1: 1}]


def test_a_ratio_misses_its_target_where_its_row_does_and_there_is_none_where_the_other_does(table: Table) -> None:
    ratio = replace(table.orderings[0], text="slow < fedavg", rows=("slow", "fedavg"), relations=("<",), column="ratio")
    runs = {"digits/fedavg": {0: run(0, 0, 0, 0, 0, 0.1)}, "digits/slow": {0: run(0, 0)}, "digits/broken": {0: run(0)}}
    compared = compare(replace(table, orderings=(ratio,)), runs, small=False)
    slow = compared.rows[1].cells[3].numbers[0]
    assert slow.by_seed == {0: Reading(3 / 6, missed=True)} and slow.reached == 0
    assert [each.decision.verdict for each in compared.judged] == ["does not hold"]  # though its number is smaller
    rows = filled(table, {"fedavg": [run(0, 0)], "slow": [run(0.1)]})
    assert values(rows["slow"], "ratio") == values(rows["fedavg"], "ratio") == [{}]


def test_orderings_are_judged_by_the_first_metric_of_their_column(table: Table) -> None:
    order = table.orderings[0]
    changed = replace(order, column="early")
    judged = compare(
        replace(table, orderings=(changed,)),
        {"digits/fedavg": {0: run(0.9, 0.2)}, "digits/slow": {0: run(0.1, 0.3)}},
        small=False,
    ).judged
    assert [each.decision.verdict for each in judged] == ["holds"]  # by the running mean, not by the accuracy


def test_a_verdict_says_what_may_be_chance(table: Table) -> None:
    order = replace(table.orderings[0], text="fedavg > slow", rows=("fedavg", "slow"), relations=(">",), column="early")
    runs = {"digits/fedavg": {0: run(0.9, 0.9), 1: run(0.4, 0.4)}, "digits/slow": {0: run(0.1, 0.1), 1: run(0.3, 0.3)}}
    lines = terminal(compare(replace(table, orderings=(order,)), runs, small=False)).splitlines()
    told = "holds (2 of 2 seeds; may be chance: fedavg 65 against slow 20)"
    assert [line for line in lines if line.startswith("ordering ")] == [
        f"ordering digits: {order.text} [early]: {told}"
    ]


def test_what_stands_beside_a_number_says_where_it_is_of_other_seeds(table: Table) -> None:
    """fedavg has both metrics in both seeds; slow's second one needs a run of fedavg, which its third seed has not."""
    both = Column("both", (parse_metric("accuracy"), parse_metric("rounds_to fedavg")))
    runs = {"fedavg": [run(0.5, 0.2), run(0.1, 0.1)], "slow": [run(0.2), run(0.3), run(0.4)]}
    by_seed = {f"digits/{row}": dict(enumerate(each)) for row, each in runs.items()}
    lines = terminal(compare(replace(table, columns=(both,), orderings=()), by_seed, small=False)).splitlines()
    slow, fedavg = (next(line for line in lines if f"digits/{row} " in line) for row in ("slow", "fedavg"))
    assert slow.endswith(" (2 seeds)") and " 3 " in slow
    assert "seeds)" not in fedavg


def test_rounds_to_a_row_are_to_what_that_row_ends_with_in_the_same_seed(table: Table) -> None:
    rounds = Column("to fedavg", (parse_metric("rounds_to fedavg"), parse_metric("rounds_to fedavg of best")))
    wide = replace(table, columns=(*table.columns, rounds))
    runs = {
        "fedavg": [run(0.5, 0.2, 0.3), run(0.1, 0.6)],
        "slow": [run(0.1, 0.3, 0.2), run(0.1, 0.2)],
    }
    rows = filled(wide, runs)
    assert values(rows["slow"], "to fedavg") == [{0: 2, 1: 3}, {0: 4, 1: 3}]
    assert rows["slow"].cells[-1].numbers[0].reached == 1
    assert values(rows["fedavg"], "to fedavg") == [{0: 1, 1: 2}, {0: 1, 1: 2}]
    assert values(filled(wide, {"slow": runs["slow"]})["slow"], "to fedavg") == [{}, {}]
