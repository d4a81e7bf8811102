"""Our numbers beside a paper's: mean and spread over seeds, difference, and the verdict on each ordering."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from launch.numbers.metric import Metric
from launch.numbers.read_off import end_of
from launch.numbers.reading import Reading, reached, values_of
from launch.numbers.spread import mean, spread_of
from launch.run.cost import read_off_run
from launch.run.stored import Run
from launch.tables.ordering import Decision, Ordering, Verdict, decide, formerly
from launch.tables.rows import Column, Row, Table


@dataclass(frozen=True)
class Numbers:
    """One metric of one row.

    Attributes:
        metric: what was read.
        by_seed: of the seeds that have it.
    """

    metric: Metric
    by_seed: Mapping[int, Reading]

    @property
    def reached(self) -> int:
        """How many seeds did not miss a target."""
        return reached(self.by_seed.values())

    @property
    def mean(self) -> float | None:
        """Over seeds; the least it can be where one missed its target."""
        return mean(values_of(self.by_seed.values()))

    @property
    def spread(self) -> float | None:
        """Standard deviation over seeds, of two at least; none where one missed its target."""
        return spread_of(self.by_seed.values())


@dataclass(frozen=True)
class Cell:
    """One column of one row.

    Attributes:
        column: its name.
        paper: the paper's number, if it gives one.
        numbers: by metric; the first is compared with the paper's.
    """

    column: str
    paper: float | None
    numbers: tuple[Numbers, ...]

    @property
    def difference(self) -> float | None:
        """Mean of the compared metric less the paper's number, if no seed missed its target."""
        ours = self.numbers[0]
        if self.paper is None or ours.mean is None or ours.reached < len(ours.by_seed):
            return None
        return ours.mean - self.paper


@dataclass(frozen=True)
class FilledRow:
    """One row of the table, with our numbers in it.

    Attributes:
        row: as the table has it.
        cells: in the order of the columns.
        seeds: whose runs have ended.
    """

    row: Row
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]

    @property
    def read(self) -> tuple[int, ...]:
        """Seeds with any number, those of runs that still go on too."""
        return tuple(sorted({seed for cell in self.cells for numbers in cell.numbers for seed in numbers.by_seed}))

    @property
    def started(self) -> bool:
        """Whether there is anything to show."""
        return bool(self.read)


@dataclass(frozen=True)
class Judged:
    """One ordering in one group.

    Attributes:
        ordering: as in the file.
        group: where it must show.
        decision: whether it does.
        formerly: the verdict of the rule that it replaces, if there was one.
    """

    ordering: Ordering
    group: str
    decision: Decision
    formerly: Verdict | None


@dataclass(frozen=True)
class Comparison:
    """A table with our numbers in it.

    Attributes:
        table: as in the file.
        small: whether the scaled-down twins ran: then only orderings can be compared.
        rows: all, in their order.
        judged: of all orderings.
    """

    table: Table
    small: bool
    rows: tuple[FilledRow, ...]
    judged: tuple[Judged, ...]


RunsBySeed = Mapping[int, Run]


@dataclass(frozen=True)
class Readings:
    """All that was read off the runs of one row.

    Attributes:
        seeds: whose runs have ended.
        by_metric: by the metric's text, then by seed.
    """

    seeds: tuple[int, ...]
    by_metric: Mapping[str, Mapping[int, Reading]]


def compare(table: Table, runs: Mapping[str, RunsBySeed], *, small: bool) -> Comparison:
    """Read all numbers off the runs there are.

    Args:
        table: whose rows were run.
        runs: by full name of the row and seed; those that have not ended give what they can.
        small: whether they are the scaled-down twins.
    """
    return judge(table, {row.full_name: _readings(table, row, runs, small) for row in table.rows}, small=small)


def judge(table: Table, readings: Mapping[str, Readings], *, small: bool) -> Comparison:
    """Fill a table with what was read, now or long ago, and decide its orderings.

    Args:
        table: whose rows were run.
        readings: by full name of the row; of rows without a run there may be none.
        small: whether they are of the scaled-down twins.
    """
    rows = tuple(_filled(row, table.columns_of(small), readings.get(row.full_name), small) for row in table.rows)
    by_row = {each.row.full_name: {cell.column: cell.numbers[0].by_seed for cell in each.cells} for each in rows}
    judged = []
    for ordering in table.orderings:
        for group in ordering.groups if ordering.small or not small else ():
            compared = {row: by_row[f"{group}/{row}"][ordering.column] for row in ordering.rows}
            decision = decide(ordering, compared)
            judged.append(Judged(ordering, group, decision, formerly(ordering, compared, decision.seeds)))
    return Comparison(table, small, rows, tuple(judged))


def _filled(row: Row, columns: Sequence[Column], readings: Readings | None, small: bool) -> FilledRow:
    found = readings or Readings((), {})
    cells = []
    for column in columns:
        numbers = tuple(Numbers(metric, found.by_metric.get(metric.text, {})) for metric in column.metrics)
        cells.append(Cell(column.name, None if small else row.expected.get(column.name), numbers))
    return FilledRow(row, tuple(cells), found.seeds)


def _readings(table: Table, row: Row, runs: Mapping[str, RunsBySeed], small: bool) -> Readings:
    mine = dict(sorted(runs.get(row.full_name, {}).items()))
    by_metric = {}
    for metric in (metric for column in table.columns_of(small) for metric in column.metrics):
        others = runs.get(f"{row.group}/{metric.other_row}", {}) if metric.other_row else mine
        read = {seed: _read(metric, run, others.get(seed)) for seed, run in mine.items()}
        by_metric[metric.text] = {seed: value for seed, value in read.items() if value is not None}
    return Readings(tuple(seed for seed, run in mine.items() if run.ended), by_metric)


def _read(metric: Metric, run: Run, other: Run | None) -> Reading | None:
    if metric.target_row:
        return _read_target(metric, run, other)
    mine = read_off_run(metric, run, run.ended)
    if not metric.relative_to or mine is None:
        return mine
    unit = read_off_run(metric, other, other.ended) if other else None
    return Reading(mine.value / unit.value, mine.missed) if unit and unit.value and not unit.missed else None


def _read_target(metric: Metric, run: Run, other: Run | None) -> Reading | None:
    """The first round that reaches what another run ends with."""
    level = end_of(metric, other.curve(metric.quantity), other.ended) if other else None
    return None if level is None else read_off_run(replace(metric, target=level), run, run.ended)
