"""results.json: what a table's numbers were made with, and that they come back from the file as they were."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_results import ELSEWHERE, HERE, RUNS, tiny_comparison, write_results

from fl_ddp.errors import ConfigError
from launch.tables.comparison import Comparison
from launch.tables.origin import ResultsOrigin, RunsAlike, origin_lines
from launch.tables.report import markdown, terminal
from launch.tables.results_file import read_results


@pytest.fixture
def tiny(tmp_path: Path) -> tuple[Comparison, ResultsOrigin]:
    """A table of three rows, of which one has no run; in one seed a target is missed."""
    return tiny_comparison(tmp_path)


@pytest.fixture
def file(tmp_path: Path, tiny: tuple[Comparison, ResultsOrigin]) -> Path:
    """What is left of it."""
    write_results(tmp_path / "results.json", tmp_path, *tiny)
    return tmp_path / "results.json"


def test_what_runs_were_made_with_is_recorded_once(tiny: tuple[Comparison, ResultsOrigin]) -> None:
    _, origin = tiny
    assert origin.command == "reproduce it" and str(origin.date).endswith("+00:00")
    assert origin.runs == (
        RunsAlike(HERE, ("2026-11-02T10:00:00+00:00", "2026-11-03T10:00:00+00:00"), {"digits/fedavg": (0, 2)}),
        RunsAlike(ELSEWHERE, ("2026-11-01T10:00:00+00:00",) * 2, {"digits/slow": (0,)}),
        RunsAlike(None, None, {"digits/slow": (2,)}),
    )
    assert origin_lines(ResultsOrigin("c", "2026-11-04T10:00:00+00:00", "abc", origin.runs)) == [
        "`c`, 2026-11-04, commit `abc`",
        "2 runs of digits/fedavg, seeds 0, 2, 2026-11-02 to 2026-11-03, commit `abc`: "
        "torch 2.15.0, a processor, 2 cores, 2 x a GPU",
        "1 run of digits/slow, seeds 0, 2026-11-01, commit `def`: torch 2.15.0, a processor, 2 cores, 2 x a GPU",
        "1 run of digits/slow, seeds 2, date not recorded, commit not recorded: versions and machine not recorded",
    ]


def test_a_file_gives_back_what_was_written(file: Path, tiny: tuple[Comparison, ResultsOrigin]) -> None:
    comparison, origin = tiny
    read, read_origin = read_results(file)
    assert (read, read_origin) == (comparison, origin)
    assert "digits/slow: not" not in terminal(read) and terminal(read) == terminal(comparison)
    assert markdown(read, read_origin) == markdown(comparison, origin)
    for text in (terminal(read), markdown(read, read_origin)):
        assert "slow 3.5 against fedavg 35); formerly, with a tolerance of 40: holds; the wrong way round\n" in text
    missed = next(filled for filled in read.rows if filled.row.name == "slow").cells[2].numbers[0].by_seed
    assert missed[0].missed and missed[0].value == 4 and not missed[2].missed


def test_a_file_names_seeds_and_what_was_decided_and_is_short(file: Path) -> None:
    text = file.read_text()
    content = json.loads(text)
    assert content["seeds"] == [0, 2] and [row["row"] for row in content["rows"]] == ["fedavg", "slow"]
    assert content["rows"][1]["columns"]["rounds"]["metrics"]["rounds_to 0.05 of best"]["by_seed"] == {
        "0": None,
        "2": 2,
    }
    assert [each["verdict"] for each in content["orderings"]] == ["holds", "does not hold", "not decided"]
    assert [each["before"] for each in content["orderings"]] == [None, {"tolerance": 40, "verdict": "holds"}, None]
    assert max(map(len, text.splitlines()[2:])) <= 120 and '"by_seed": {"0": 30.0, "2": 40.0}' in text


def test_an_infinite_number_comes_back_too(tmp_path: Path) -> None:
    slow = replace(RUNS["digits/slow"][2], curves={"accuracy": [(1, math.inf), (2, math.inf), (3, math.inf)]})
    comparison, origin = tiny_comparison(tmp_path, {**RUNS, "digits/slow": {**RUNS["digits/slow"], 2: slow}})
    write_results(tmp_path / "results.json", tmp_path, comparison, origin)
    assert read_results(tmp_path / "results.json") == (comparison, origin)
    assert comparison.rows[1].cells[1].numbers[0].mean == math.inf


def test_an_older_file_is_judged_by_the_table_as_it_is_now(file: Path) -> None:
    content = json.loads(file.read_text())
    for key in ("date", "commit", "seeds", "runs", "orderings"):
        del content[key]
    columns = content["rows"][1]["columns"]
    columns["before"] = columns.pop("rounds")
    metrics = columns["before"]["metrics"]
    del metrics["rounds_to 0.05 of best"]["at_least"], columns["end"]
    file.write_text(json.dumps(content))
    read, origin = read_results(file)
    assert origin == ResultsOrigin(
        "reproduce it", None, None, (RunsAlike(None, None, {"digits/fedavg": (0, 2), "digits/slow": (0, 2)}),)
    )
    assert origin_lines(origin) == [
        "`reproduce it`, date not recorded, commit not recorded",
        "4 runs, seeds 0, 2, date not recorded, commit not recorded: versions and machine not recorded",
    ]
    slow = {cell.column: cell.numbers[0].by_seed for cell in read.rows[1].cells}
    assert slow["rounds"][0].value == 4 and slow["rounds"][0].missed  # one round more than the table's own three
    assert slow["end"] == {} and "not decided (no number of slow)" in terminal(read)


def test_a_file_of_another_table_is_refused(file: Path) -> None:
    file.write_text(file.read_text().replace('"row": "slow"', '"row": "slower"'))
    with pytest.raises(
        ConfigError, match=r"results\.json: rows\[1\]: tiny/table1 has no row digits/slower; did you mean"
    ):
        read_results(file)
    file.write_text("{")
    with pytest.raises(ConfigError, match=r"results\.json: is no file of results"):
        read_results(file)
