"""What templates can ask for, answered from a table of two seeds and a benchmark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from directives import Directives
from tiny_results import RUNS, tiny_comparison, write_results

from fl_ddp.errors import ConfigError
from launch.tables.report import terminal

BENCHMARK = {
    "command": "benchmarks/rounds.py",
    "results": {"1 rank": {"mlp": {"speedup": 6.597, "parameters": 159010}}},
    "environment": {"torch": "2.15.0", "cpu": "a processor", "cores": 2, "gpus": []},
}

ONE = {row: {0: runs[0]} for row, runs in RUNS.items()}
"""The runs of one seed."""


@pytest.fixture
def directives(tmp_path: Path) -> Directives:
    """Of a folder with both."""
    results = tmp_path / "results"
    results.mkdir()
    write_results(results / "tiny.json", tmp_path, *tiny_comparison(tmp_path))
    (results / "times.json").write_text(json.dumps(BENCHMARK))
    return Directives(results)


@pytest.mark.parametrize(
    ("directive", "text"),
    [
        ("value tiny | digits/fedavg | final", "35.00 ± 7.07"),
        ("value tiny | digits/slow | rounds_to 0.05 of best", ">= 3.0 (1 of 2 reach it)"),
        ("difference tiny | digits/fedavg | digits/slow | final", "31.50"),
        ("seeds tiny | digits/fedavg | digits/slow | final", "+27.00 with seed 0, +36.00 with seed 2"),
        ("seeds tiny | digits/slow | digits/fedavg | final@2", "-18.00 with seed 0, -24.00 with seed 2"),
        ("farthest tiny | digits/fedavg | final", "15.00"),
        ("number times / 1 rank / mlp / speedup | .1f", "6.6"),
        ("number times / 1 rank / mlp / parameters | ,d", "159,010"),
        ("machine times", "a processor, 2 cores"),
        ("typed 10 | 20", "10 | 20"),
        ("paper fedcurv/table1 | e50/fedcurv | 90 %", "9"),
    ],
)
def test_numbers(directives: Directives, directive: str, text: str) -> None:
    assert directives(directive) == text


def test_tables(directives: Directives) -> None:
    assert directives("table tiny | digits | early").splitlines() == [
        "| row | paper | running_mean@2 | final@2 | seeds |",
        "| --- | ---: | ---: | ---: | ---: |",
        "| digits/fedavg | 20.00 | 20.00 ± 7.07 | 25.00 ± 7.07 | 2 |",
        "| digits/slow |  | 2.50 ± 1.41 | 4.00 ± 2.83 | 2 |",
    ]
    head, _, line = directives("table tiny | digits/fedavg | end, early").splitlines()
    assert head == "| row | paper, end | final | paper, early | running_mean@2 | final@2 | seeds |"
    assert line == "| digits/fedavg | 50.00 | 35.00 ± 7.07 | 20.00 | 20.00 ± 7.07 | 25.00 ± 7.07 | 2 |"
    assert directives("figures times / 1 rank | model | times = speedup .2f | size = parameters ,d").splitlines() == [
        "| model | times | size |",
        "| --- | ---: | ---: |",
        "| mlp | 6.60 | 159,010 |",
    ]


def test_no_spread_is_printed_of_one_seed(tmp_path: Path) -> None:
    one = tiny_comparison(tmp_path, ONE)
    write_results(tmp_path / "tiny.json", tmp_path, *one)
    assert "±" not in Directives(tmp_path)("table tiny | digits | early, end")
    assert "±" not in terminal(one[0])


def test_the_verdict_of_one_seed_says_that_it_is_one(tmp_path: Path) -> None:
    write_results(tmp_path / "tiny.json", tmp_path, *tiny_comparison(tmp_path, ONE))
    assert Directives(tmp_path)("verdicts tiny | digits").splitlines() == [
        "- digits: fedavg > slow [end]: holds in the one seed",
        "- digits: slow > fedavg [end]: does not hold in the one seed (slow 3 against fedavg 30); "
        "formerly, with a tolerance of 40: holds in the one seed; the wrong way round",
        "- digits: fedavg > broken [end]: not decided (no number of broken)",
    ]


def test_verdicts_and_where_numbers_come_from(directives: Directives) -> None:
    assert directives("verdicts tiny | digits").splitlines() == [
        "- digits: fedavg > slow [end]: holds (2 of 2 seeds)",
        "- digits: slow > fedavg [end]: does not hold (0 of 2 seeds; slow 3.5 against fedavg 35); "
        "formerly, with a tolerance of 40: holds; the wrong way round",
        "- digits: fedavg > broken [end]: not decided (no number of broken)",
    ]
    first, _, made, runs, *_ = directives("origin tiny").splitlines()
    assert "benchmarks/results/tiny.json" in first and made.startswith("- `reproduce it`, 20") and "`abc`" in runs
    assert directives("origin times").splitlines()[2:] == [
        "- `benchmarks/rounds.py`, date not recorded, commit not recorded",
        "- torch 2.15.0, a processor, 2 cores",
    ]


@pytest.mark.parametrize(
    ("directive", "message"),
    [
        ("vale tiny | digits/fedavg | final", "there is no directive vale; did you mean value?"),
        ("value tiny | digits/fedavg", "value takes 3 parts with | between them"),
        ("value tiney | digits/fedavg | final", "there is no file tiney; did you mean tiny?"),
        ("value tiny | digits/fedavgg | final", "tiny: there is no row digits/fedavgg; did you mean digits/fedavg?"),
        ("value tiny | digits/broken | final", "tiny: there is no row digits/broken"),
        ("value tiny | digits/fedavg | finall", "tiny: there is no metric finall; did you mean final?"),
        ("table tiny | digit | end", "tiny: there is no row digit; did you mean digits?"),
        ("table tiny | digits | ende", "tiny: there is no column ende; did you mean end?"),
        ("verdicts tiny | digit", "tiny: there is no group digit; did you mean digits?"),
        ("farthest tiny | digits | final", "tiny: the paper has no number of digits/slow for end"),
        ("difference tiny | digits/fedavg | digits/slow | rounds_to 0.05 of best", "a seed misses rounds_to"),
        ("seeds tiny | digits/fedavg | digits/slow | rounds_to 0.05 of best", "a seed misses rounds_to"),
        ("seeds tiny | digits/fedavg | final", "seeds takes 4 parts with | between them"),
        ("number times / 1 rank / mpl / speedup | .1f", "there is no key mpl; did you mean mlp?"),
        ("number times / 1 rank / mlp | .1f", "times / 1 rank / mlp: cannot be shown as .1f"),
        ("number times / 1 rank / mlp / speedup / x | .1f", "holds no numbers by name"),
        ("figures times / 1 rank | model | speedup .1f", "'speedup .1f' is no column; accepted: HEAD = KEY FORMAT"),
        ("figures times / 1 rank | model | times = speed .1f", "there is no number speed; did you mean speedup?"),
        ("paper fedcurv/table1 | e50/fedcurv | 80 %", "there is no number of the paper 80 %"),
    ],
)
def test_what_is_not_there_is_named(directives: Directives, directive: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        directives(directive)
    assert message in str(caught.value)
