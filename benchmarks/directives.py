"""What stands in braces in a template: numbers, tables and verdicts of the files of results.

    {value FILE | ROW | METRIC}              mean and spread over seeds, as in the tables
    {difference FILE | ROW | ROW | METRIC}   mean of the first row less that of the second, over the seeds of both
    {seeds FILE | ROW | ROW | METRIC}        the same difference in each of these seeds
    {farthest FILE | ROWS | METRIC}          how far the mean of one of the rows is from the paper's number, at most
    {paper TABLE | ROW | COLUMN}             the paper's number, from the table's file
    {number FILE / KEY / ... | FORMAT}       a number of a benchmark, such as .1f
    {machine FILE}                           of a benchmark
    {table FILE | ROWS | COLUMNS}            our numbers beside the paper's, a column for each metric
    {figures FILE / KEY / ... | NAME | HEAD = KEY FORMAT | ...}   a benchmark's numbers, a line for each entry
    {verdicts FILE | GROUP}                  on each ordering
    {origin FILE}                            command, date, commit, versions, machine and seeds
    {typed TEXT}                             the text: what is no result of ours

FILE is a file in benchmarks/results without its ending, ROWS and COLUMNS are names with commas between them. A row is
group/row, or a group for all of its rows; a metric is written as in the table's file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from fl_ddp.config.options import meant
from fl_ddp.errors import ConfigError
from fl_ddp.host.text_table import TextTable
from fl_ddp.reading.json_file import read_json
from launch.numbers.reading import Reading, values_of
from launch.numbers.spread import DIGITS, mean, shown, with_spread
from launch.tables.comparison import Cell, Comparison, FilledRow, Numbers
from launch.tables.origin import ResultsOrigin, machine, made_by, made_with, origin_lines
from launch.tables.report import verdict_line
from launch.tables.results_file import read_results
from launch.tables.yaml_file import load_table

Found = Mapping[str, object]


class Directives:
    """Answers directives from a folder of results."""

    def __init__(self, folder: Path) -> None:
        self.files: set[str] = set()  # that were asked for
        self._folder = folder
        self._stored = cache(self._read_stored)
        self._benchmark = cache(self._read_benchmark)
        self._of_paper = cache(load_table)
        self._known: dict[str, tuple[Callable[..., str], int]] = {
            "value": (self._value, 3),
            "difference": (self._difference, 4),
            "seeds": (self._seeds, 4),
            "farthest": (self._farthest, 3),
            "paper": (self._paper, 3),
            "number": (self._number, 2),
            "machine": (self._machine, 1),
            "table": (self._table, 3),
            "figures": (self._figures, 3),
            "verdicts": (self._verdicts, 2),
            "origin": (self._origin, 1),
        }

    def __call__(self, directive: str) -> str:
        """What stands in its place.

        Raises:
            ConfigError: there is no such directive, file, row, column, metric or number.
        """
        name, _, rest = directive.partition(" ")
        if name == "typed":
            return rest
        if name not in self._known:
            raise ConfigError(f"{{{directive}}}", f"there is no directive {name}; {meant(name, self._known)}")
        answer, count = self._known[name]
        words = [word.strip() for word in rest.split("|")]
        if len(words) < count or (len(words) > count and name != "figures") or not all(words):
            raise ConfigError(f"{{{directive}}}", f"{name} takes {count} parts with | between them")
        return answer(*words)

    def _value(self, file: str, row: str, metric: str) -> str:
        numbers = self._numbers(file, row, metric)
        return with_spread(numbers.by_seed.values(), numbers.metric.unit)

    def _difference(self, file: str, first: str, second: str, metric: str) -> str:
        seeds, a, b = self._of_both(file, first, second, metric)
        means = [_reached([each.by_seed[seed] for seed in seeds], file, metric) for each in (a, b)]
        return shown(means[0] - means[1], a.metric.unit)

    def _seeds(self, file: str, first: str, second: str, metric: str) -> str:
        seeds, a, b = self._of_both(file, first, second, metric)
        _reached([each.by_seed[seed] for seed in seeds for each in (a, b)], file, metric)
        digits = DIGITS[a.metric.unit]
        return ", ".join(
            f"{a.by_seed[seed].value - b.by_seed[seed].value:+.{digits}f} with seed {seed}" for seed in seeds
        )

    def _of_both(self, file: str, first: str, second: str, metric: str) -> tuple[list[int], Numbers, Numbers]:
        """Seeds that two rows have in common, of which there must be one, and the numbers of both."""
        a, b = self._numbers(file, first, metric), self._numbers(file, second, metric)
        seeds = sorted(set(a.by_seed) & set(b.by_seed))
        if not seeds:
            raise ConfigError(file, f"{first} and {second} have no seed in common")
        return seeds, a, b

    def _farthest(self, file: str, rows: str, metric: str) -> str:
        differences = []
        for row in self._rows(file, rows):
            cell, numbers = self._cell(file, row, metric)
            if cell.paper is None:
                raise ConfigError(file, f"the paper has no number of {row.row.full_name} for {cell.column}")
            differences.append(abs(_reached(list(numbers.by_seed.values()), file, metric) - cell.paper))
        return shown(max(differences), numbers.metric.unit)

    def _paper(self, name: str, row: str, column: str) -> str:
        table = self._of_paper(name)
        rows = {each.full_name: each for each in table.rows}
        expected = rows[_known(row, rows, name, "row")].expected
        _known(column, expected, f"{name}: {row}", "number of the paper")
        metrics = {each.name: each.metrics for each in table.columns}[column]
        return shown(expected[column], metrics[0].unit)

    def _number(self, place: str, form: str) -> str:
        return _formatted(self._at(place), form, place)

    def _machine(self, file: str) -> str:
        return machine(_mapping(self._benchmark(file).get("environment"), file))

    def _table(self, file: str, rows: str, columns: str) -> str:
        comparison, _ = self._stored(file)
        names = [column.name for column in comparison.table.columns_of(comparison.small)]
        wanted = [_known(name.strip(), names, file, "column") for name in columns.split(",")]
        filled = self._rows(file, rows)
        cells = [[{cell.column: cell for cell in row.cells}[name] for name in wanted] for row in filled]
        with_paper = [any(row[i].paper is not None for row in cells) for i in range(len(wanted))]
        head = ["row"]
        for name, paper, cell in zip(wanted, with_paper, cells[0], strict=True):
            head += ["paper" if sum(with_paper) == 1 else f"paper, {name}"] if paper else []
            head += [numbers.metric.text for numbers in cell.numbers]
        lines = []
        for row, its in zip(filled, cells, strict=True):
            line = [row.row.full_name]
            for cell, paper in zip(its, with_paper, strict=True):
                unit = cell.numbers[0].metric.unit
                line += ["" if cell.paper is None else shown(cell.paper, unit)] if paper else []
                line += [with_spread(each.by_seed.values(), each.metric.unit) for each in cell.numbers]
            lines.append([*line, str(len(row.read))])
        return "\n".join(TextTable([*head, "seeds"], lines, flush_left=1).markdown())

    def _figures(self, place: str, name: str, *columns: str) -> str:
        entries = _mapping(self._at(place), place)
        heads, keys = zip(*(_split(column, " = ", place) for column in columns), strict=True)
        lines = []
        for entry, found in entries.items():
            numbers = _mapping(found, f"{place} / {entry}")
            line = [entry]
            for key, form in (_split(each, " ", place) for each in keys):
                _known(key, numbers, f"{place} / {entry}", "number")
                line.append(_formatted(numbers[key], form, f"{place} / {entry} / {key}"))
            lines.append(line)
        return "\n".join(TextTable([name, *heads], lines, flush_left=1).markdown())

    def _verdicts(self, file: str, group: str) -> str:
        comparison, _ = self._stored(file)
        _known(group, comparison.table.groups, file, "group")
        lines = [f"- {verdict_line(each)}" for each in comparison.judged if each.group == group]
        if not lines:
            raise ConfigError(file, f"no ordering must show in {group}")
        return "\n".join(lines)

    def _origin(self, file: str) -> str:
        source = f"[`{file}.json`](../benchmarks/results/{file}.json)"
        if "table" in self._benchmark(file):
            _, origin = self._stored(file)
            return "\n".join([f"Numbers of {source}:", "", *(f"- {line}" for line in origin_lines(origin))])
        content = self._benchmark(file)
        environment = _mapping(content.get("environment"), file)
        recorded = {**environment, **({"command": content["command"]} if "command" in content else {})}
        return f"Numbers of {source}:\n\n- {made_by(recorded)}\n- {made_with(environment)}"

    def _numbers(self, file: str, row: str, metric: str) -> Numbers:
        comparison, _ = self._stored(file)
        known = {each.row.full_name: each for each in comparison.rows if each.started}
        _, numbers = self._cell(file, known[_known(row, known, file, "row")], metric)
        return numbers

    def _cell(self, file: str, row: FilledRow, metric: str) -> tuple[Cell, Numbers]:
        """Column and numbers of a metric that the row has."""
        texts = {numbers.metric.text: (cell, numbers) for cell in reversed(row.cells) for numbers in cell.numbers}
        found = texts[_known(metric, texts, file, "metric")]
        if not found[1].by_seed:
            raise ConfigError(file, f"{row.row.full_name} has no number of {metric}")
        return found

    def _rows(self, file: str, rows: str) -> list[FilledRow]:
        """Rows with numbers: those that are named, and those of groups that are."""
        comparison, _ = self._stored(file)
        started = [each for each in comparison.rows if each.started]
        known = {each.row.full_name for each in started} | {each.row.group for each in started}
        wanted = [_known(row.strip(), known, file, "row") for row in rows.split(",")]
        return [each for each in started if {each.row.full_name, each.row.group} & set(wanted)]

    def _at(self, place: str) -> object:
        file, *keys = (key.strip() for key in place.split("/"))
        found = self._benchmark(file).get("results")
        for key in keys:
            numbers = _mapping(found, place)
            found = numbers[_known(key, numbers, place, "key")]
        return found

    def _path(self, file: str) -> Path:
        known = [path.stem for path in self._folder.glob("*.json")]
        _known(file, known, "benchmarks/results", "file")
        self.files.add(file)
        return self._folder / f"{file}.json"

    def _read_stored(self, file: str) -> tuple[Comparison, ResultsOrigin]:
        return read_results(self._path(file))

    def _read_benchmark(self, file: str) -> Found:
        return read_json(self._path(file), "is no file of results")


def _reached(readings: Sequence[Reading], file: str, metric: str) -> float:
    """Their mean, of which none may have missed its target."""
    middle = mean(values_of(readings))
    if middle is None or any(each.missed for each in readings):
        raise ConfigError(file, f"a seed misses {metric}")
    return middle


def _formatted(value: object, form: str, place: str) -> str:
    try:
        return format(value, form)
    except (TypeError, ValueError) as error:
        raise ConfigError(place, f"cannot be shown as {form} ({error})") from error


def _known(word: str, known: Sequence[str] | Mapping[str, object] | set[str], where: str, what: str) -> str:
    if word not in known:
        raise ConfigError(where, f"there is no {what} {word}; {meant(word, known)}")
    return word


def _split(text: str, between: str, where: str) -> tuple[str, str]:
    first, found, second = text.rpartition(between)
    if not found:
        raise ConfigError(where, f"{text!r} is no column", "HEAD = KEY FORMAT")
    return first.strip(), second.strip()


def _mapping(value: object, where: str) -> Found:
    if not isinstance(value, Mapping):
        raise ConfigError(where, "holds no numbers by name")
    return value
