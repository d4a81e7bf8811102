"""Numbers of the tiny table, read off runs that nobody made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tiny_table import TINY, write_table

from launch.run.stored import Run
from launch.tables.comparison import Comparison, compare
from launch.tables.origin import ResultsOrigin, origin_now
from launch.tables.results_file import as_json
from launch.tables.yaml_file import load_table

HERE = {"torch": "2.15.0", "commit": "abc", "cpu": "a processor", "cores": 2, "gpus": ["a GPU", "a GPU"]}
ELSEWHERE = {**HERE, "commit": "def"}


def _run(accuracies: list[float], environment: Mapping[str, object] | None, day: str = "01") -> Run:
    summary: dict[str, object] = {"rounds": len(accuracies)}
    if environment is not None:
        summary["environment"] = {**environment, "command": "fl_ddp.main", "date": f"2026-11-{day}T10:00:00+00:00"}
    rounds = len(accuracies)
    return Run(Path(), {}, rounds, rounds, {"accuracy": list(enumerate(accuracies, 1))}, [(1, 1.0)], summary)


RUNS = {
    "digits/fedavg": {0: _run([0.1, 0.2, 0.3], HERE, "03"), 2: _run([0.2, 0.3, 0.4], HERE, "02")},
    "digits/slow": {0: _run([0.01, 0.02, 0.03], ELSEWHERE), 2: _run([0.01, 0.06, 0.04], None)},
}
"""A row of three has no run; in seed 0 slow misses its target."""


def tiny_comparison(folder: Path, runs: Mapping[str, Mapping[int, Run]] = RUNS) -> tuple[Comparison, ResultsOrigin]:
    """The table, written below a folder, with its numbers."""
    table = load_table(str(folder / write_table(folder)))
    comparison = compare(table, runs, small=False)
    return comparison, origin_now("reproduce it", comparison, runs)


def write_results(path: Path, folder: Path, comparison: Comparison, origin: ResultsOrigin) -> None:
    """The file of results, which names its table by the path where that was written."""
    text = as_json(comparison, origin)
    path.write_text(text.replace(f'"{comparison.table.name}"', f'"{folder / TINY}"'))
