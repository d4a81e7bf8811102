"""results.json: a table's numbers of every seed, which later code reads and judges again."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path

from fl_ddp.config.options import meant
from fl_ddp.errors import ConfigError
from fl_ddp.reading.json_file import read_json
from launch.input import fields
from launch.numbers.reading import Reading
from launch.tables.comparison import Comparison, Judged, Numbers, Readings, judge
from launch.tables.origin import ResultsOrigin, RunsAlike
from launch.tables.rows import Row
from launch.tables.seeded_row import seeded_rows
from launch.tables.yaml_file import load_table

_WIDTH = 120


def as_json(comparison: Comparison, origin: ResultsOrigin) -> str:
    """All numbers, those of each seed too; of a missed target null, and under at_least the least it can be."""
    seeds = {seed for filled in comparison.rows for seed in filled.seeds}
    content = {
        "table": comparison.table.name,
        "id": comparison.table.id,
        "small": comparison.small,
        "command": origin.command,
        "date": origin.date,
        "commit": origin.commit,
        "seeds": sorted(seeds),
        "runs": [
            {
                "environment": alike.environment,
                "dates": alike.dates,
                "rows": {row: list(seeds) for row, seeds in alike.rows.items()},
            }
            for alike in origin.runs
        ],
        "rows": [
            {
                "group": filled.row.group,
                "row": filled.row.name,
                "variant": filled.row.variant,
                "run": f"{filled.row.table}/{filled.row.run}",
                "seeds": list(filled.seeds),
                "columns": {
                    cell.column: {
                        "paper": cell.paper,
                        "difference": _written(cell.difference),
                        "metrics": {numbers.metric.text: _numbers_content(numbers) for numbers in cell.numbers},
                    }
                    for cell in filled.cells
                },
            }
            for filled in comparison.rows
            if filled.started
        ],
        "orderings": [_judged_content(judged) for judged in comparison.judged],
    }
    return f"{_readable(content)}\n"


def read_results(path: Path) -> tuple[Comparison, ResultsOrigin]:
    """What a file holds, judged by the table as it is now: its columns, its orderings, the paper's numbers.

    A metric is found under whichever column it was stored. Files of older versions say nothing of what their runs were
    made with, and have rows without a run.

    Raises:
        ConfigError: it is no such file, or of another table than there is now.
    """
    content = read_json(path, "is no file of results")
    table = load_table(fields.text(content.get("table"), f"{path}: table"))
    small = fields.switch(content.get("small"), f"{path}: small")
    rows = {row.full_name: row for row in table.rows}
    readings = {}
    for i, each in enumerate(fields.listing(content.get("rows"), f"{path}: rows")):
        where = f"{path}: rows[{i}]"
        stored = fields.mapping(each, where)
        name = f"{stored.get('group')}/{stored.get('row')}"
        if name not in rows:
            raise ConfigError(where, f"{table.name} has no row {name}; {meant(name, rows)}")
        readings[name] = _readings(stored, rows[name], small, where)
    return judge(table, readings, small=small), _origin(content, readings, str(path))


def _numbers_content(numbers: Numbers) -> dict[str, object]:
    by_seed = {str(seed): each for seed, each in numbers.by_seed.items()}
    missed = {seed: each.value for seed, each in by_seed.items() if each.missed}
    return {
        "mean": _written(numbers.mean),
        "spread": numbers.spread,
        "reached": numbers.reached,
        "by_seed": {seed: None if each.missed else _written(each.value) for seed, each in by_seed.items()},
        **({"at_least": missed} if missed else {}),
    }


def _written(value: float | None) -> float | str | None:
    """A number as JSON has it, which knows none that is infinite."""
    return value if value is None or math.isfinite(value) else str(value)


def _number(value: object, where: str) -> float:
    return math.inf if value == "inf" else fields.number(value, where)


def _judged_content(judged: Judged) -> dict[str, object]:
    return {
        "order": judged.ordering.text,
        "column": judged.ordering.column,
        "tolerance": judged.ordering.tolerance,
        "group": judged.group,
        "verdict": judged.decision.verdict,
        "seeds": list(judged.decision.seeds),
        "showing": list(judged.decision.showing),
        "why": judged.decision.why,
        "by_chance": list(judged.decision.by_chance),
        "before": judged.formerly and {"tolerance": judged.ordering.tolerance_before, "verdict": judged.formerly},
        "remark": judged.ordering.remark,
    }


def _readable(value: object, depth: int = 0, key: str = "") -> str:
    """JSON in which whatever fits into a line, after its key, stands in one."""
    line = key + json.dumps(value, allow_nan=False)
    inner, outer = "\n" + "  " * (depth + 1), "\n" + "  " * depth
    if len(outer) + len(line) <= _WIDTH or not isinstance(value, dict | list):
        return line
    if isinstance(value, list):
        return f"{key}[{inner}{f',{inner}'.join(_readable(each, depth + 1) for each in value)}{outer}]"
    pairs = (_readable(each, depth + 1, f"{json.dumps(name)}: ") for name, each in value.items())
    return f"{key}{{{inner}{f',{inner}'.join(pairs)}{outer}}}"


def _readings(stored: Mapping[str, object], row: Row, small: bool, where: str) -> Readings:
    by_metric: dict[str, dict[int, Reading]] = {}
    one_more = cache(partial(_one_more_round, row, small))
    for column, cell in fields.mapping(stored.get("columns"), f"{where}.columns").items():
        here = f"{where}.columns.{column}.metrics"
        for metric, numbers in fields.mapping(fields.mapping(cell, here).get("metrics"), here).items():
            given = fields.mapping(numbers, f"{here}.{metric}")
            missed = fields.mapping(given.get("at_least", {}), f"{here}.{metric}.at_least")
            by_seed = fields.mapping(given.get("by_seed"), f"{here}.{metric}.by_seed")
            by_metric[metric] = {}
            for seed, value in by_seed.items():
                known = missed.get(seed) if value is None else value
                number = _number(one_more() if known is None else known, f"{here}.{metric}.by_seed.{seed}")
                by_metric[metric][int(seed)] = Reading(number, missed=value is None)
    seeds = fields.listing(stored.get("seeds"), f"{where}.seeds")
    return Readings(tuple(int(str(seed)) for seed in seeds), by_metric)


def _one_more_round(row: Row, small: bool) -> int:
    """The least that a missed target of an older file can be, which does not have it."""
    (seeded,) = seeded_rows([row], [0], small=small, out=Path(), extra=())
    return seeded.trial.config.rounds + 1


def _origin(content: Mapping[str, object], readings: Mapping[str, Readings], where: str) -> ResultsOrigin:
    runs = []
    if "runs" not in content:
        runs.append(RunsAlike(None, None, {row: read.seeds for row, read in readings.items() if read.seeds}))
    for i, each in enumerate(fields.listing(content.get("runs", []), f"{where}: runs")):
        here = f"{where}: runs[{i}]"
        stored = fields.mapping(each, here)
        environment, dates = stored.get("environment"), stored.get("dates")
        first_and_last = [str(date) for date in fields.listing(dates, f"{here}.dates")] if dates else []
        rows = fields.mapping(stored.get("rows"), f"{here}.rows")
        runs.append(
            RunsAlike(
                None if environment is None else fields.mapping(environment, f"{here}.environment"),
                (first_and_last[0], first_and_last[-1]) if first_and_last else None,
                {row: tuple(int(str(s)) for s in fields.listing(seeds, f"{here}.rows")) for row, seeds in rows.items()},
            )
        )
    command = fields.text(content.get("command"), f"{where}: command")
    date, commit = (content.get(key) for key in ("date", "commit"))
    return ResultsOrigin(command, str(date) if date else None, str(commit) if commit else None, tuple(runs))
