"""results.json: what a table's numbers were made with, and that they come back from the file as they were."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tiny_table import write_table

from fl_ddp.errors import ConfigError
from launch.run.stored import Run
from launch.tables.comparison import Comparison, compare
from launch.tables.origin import Batch, Origin, origin_lines, origin_now
from launch.tables.report import markdown, terminal
from launch.tables.results_file import as_json, read_results
from launch.tables.yaml_file import load_table

HERE = {"torch": "2.15.0", "commit": "abc", "cpu": "a processor", "cores": 2, "gpus": ["a GPU", "a GPU"]}
ELSEWHERE = {**HERE, "commit": "def"}


def run(accuracies: list[float], environment: Mapping[str, object] | None, day: str = "01") -> Run:
    summary: dict[str, object] = {"rounds": len(accuracies)}
    if environment is not None:
        summary["environment"] = {**environment, "command": "fl_ddp.main", "date": f"2026-11-{day}T10:00:00+00:00"}
    rounds = len(accuracies)
    return Run(Path(), {}, rounds, rounds, {"accuracy": list(enumerate(accuracies, 1))}, 1.0, summary)


RUNS = {
    "digits/fedavg": {0: run([0.1, 0.2, 0.3], HERE, "03"), 2: run([0.2, 0.3, 0.4], HERE, "02")},
    "digits/slow": {0: run([0.01, 0.02, 0.03], ELSEWHERE), 2: run([0.01, 0.06, 0.04], None)},
}


@pytest.fixture
def comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Comparison:
    """Of a table of three rows, of which one has no run; in one seed a target is missed."""
    monkeypatch.chdir(tmp_path)
    return compare(load_table(write_table(tmp_path)), RUNS, small=False)


def stored(comparison: Comparison, origin: Origin) -> Path:
    """The file, whose table is given by its path."""
    text = as_json(comparison, origin).replace('"tiny/table1"', '"tiny/table1.table.yaml"')
    Path("results.json").write_text(text)
    return Path("results.json")


def test_what_runs_were_made_with_is_recorded_once(comparison: Comparison) -> None:
    origin = origin_now("reproduce it", comparison, RUNS)
    assert origin.command == "reproduce it" and str(origin.date).endswith("+00:00")
    assert origin.batches == (
        Batch(HERE, ("2026-11-02T10:00:00+00:00", "2026-11-03T10:00:00+00:00"), {"digits/fedavg": (0, 2)}),
        Batch(ELSEWHERE, ("2026-11-01T10:00:00+00:00",) * 2, {"digits/slow": (0,)}),
        Batch(None, None, {"digits/slow": (2,)}),
    )
    assert origin_lines(Origin("c", "2026-11-04T10:00:00+00:00", "abc", origin.batches)) == [
        "`c`, 2026-11-04, commit `abc`",
        "2 runs of digits/fedavg, seeds 0, 2: commit `abc`, torch 2.15.0, a processor, 2 cores, 2 x a GPU; "
        "date 2026-11-02 to 2026-11-03",
        "1 run of digits/slow, seeds 0: commit `def`, torch 2.15.0, a processor, 2 cores, 2 x a GPU; date 2026-11-01",
        "1 run of digits/slow, seeds 2: commit, versions and machine not recorded; date not recorded",
    ]


def test_a_file_gives_back_what_was_written(comparison: Comparison) -> None:
    origin = origin_now("reproduce it", comparison, RUNS)
    read, read_origin = read_results(stored(comparison, origin))
    assert (read, read_origin) == (comparison, origin)
    assert "digits/slow: not" not in terminal(read) and terminal(read) == terminal(comparison)
    assert markdown(read, read_origin) == markdown(comparison, origin)
    missed = next(filled for filled in read.rows if filled.row.name == "slow").cells[2].numbers[0].by_seed
    assert missed[0].missed and missed[0].value == 4 and not missed[2].missed


def test_a_file_names_seeds_and_what_was_decided_and_is_short(comparison: Comparison) -> None:
    text = stored(comparison, origin_now("c", comparison, RUNS)).read_text()
    content = json.loads(text)
    assert content["seeds"] == [0, 2] and [row["row"] for row in content["rows"]] == ["fedavg", "slow"]
    assert content["rows"][1]["columns"]["rounds"]["metrics"]["rounds_to 0.05 of best"]["by_seed"] == {
        "0": None,
        "2": 2,
    }
    assert [each["verdict"] for each in content["orderings"]] == ["holds", "does not hold", "not decided"]
    assert max(map(len, text.splitlines())) <= 120 and '"by_seed": {"0": 30.0, "2": 40.0}' in text


def test_an_older_file_is_judged_by_the_table_as_it_is_now(comparison: Comparison) -> None:
    path = stored(comparison, origin_now("c", comparison, RUNS))
    content = json.loads(path.read_text())
    for key in ("date", "commit", "seeds", "runs", "orderings"):
        del content[key]
    columns = content["rows"][1]["columns"]
    columns["before"] = columns.pop("rounds")
    metrics = columns["before"]["metrics"]
    del metrics["rounds_to 0.05 of best"]["at_least"], columns["end"]
    path.write_text(json.dumps(content))
    read, origin = read_results(path)
    assert origin == Origin("c", None, None, ())
    assert origin_lines(origin)[0] == "`c`, date not recorded, commit not recorded"
    slow = {cell.column: cell.numbers[0].by_seed for cell in read.rows[1].cells}
    assert slow["rounds"][0].value == 4 and slow["rounds"][0].missed  # one round more than the table's own three
    assert slow["end"] == {} and "not decided (no number of slow)" in terminal(read)


def test_a_file_of_another_table_is_refused(comparison: Comparison) -> None:
    path = stored(comparison, origin_now("c", comparison, RUNS))
    path.write_text(path.read_text().replace('"row": "slow"', '"row": "slower"'))
    with pytest.raises(
        ConfigError, match=r"results\.json: rows\[1\]: tiny/table1 has no row digits/slower; did you mean"
    ):
        read_results(path)
    path.write_text("{")
    with pytest.raises(ConfigError, match=r"results\.json: cannot be read"):
        read_results(path)
