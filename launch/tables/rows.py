"""A paper's table or figure: its runs, the paper's numbers and the orderings that must show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fl_ddp.config.options import meant
from fl_ddp.errors import ConfigError
from launch.numbers.metric import Metric
from launch.tables.ordering import Ordering

Follows = Literal["paper", "code"]
Content = Mapping[str, object]


@dataclass(frozen=True)
class Column:
    """A number the table gives for each row.

    Attributes:
        name: as the table writes it.
        metrics: the first is compared with the paper's number, the others are shown beside it.
    """

    name: str
    metrics: tuple[Metric, ...]


@dataclass(frozen=True)
class Row:
    """One line of a table in one setting: a run for each seed.

    Attributes:
        group: its setting.
        name: unique in its group.
        variant: whether it follows the paper's text or its official code.
        table: whose run this is, such as importance/table1; rows of several tables may be read off one run.
        run: group-row in that table, the beginning of the run folder's name.
        base: configuration the run starts from.
        options: over those of base.
        small: over both, in the scaled-down twin.
        expected: the paper's number by column.
    """

    group: str
    name: str
    variant: Follows
    table: str
    run: str
    base: Path
    options: Content
    small: Content
    expected: Mapping[str, float]

    @property
    def full_name(self) -> str:
        """group/row."""
        return f"{self.group}/{self.name}"


@dataclass(frozen=True)
class Table:
    """A table or figure of a paper.

    Attributes:
        name: folder and file, such as importance/table3.
        id: of its rows in lists of experiments.
        paper: authors, year and title.
        item: what it is in the paper.
        title: what it shows.
        note: what the rows cannot express, and how numbers were converted.
        cost: of one run and of the scaled-down twin, in words.
        columns: in their order.
        small_columns: in the scaled-down twin.
        rows: in their order.
        orderings: that must show.
    """

    name: str
    id: str
    paper: str
    item: str
    title: str
    note: str
    cost: str
    columns: tuple[Column, ...]
    small_columns: tuple[Column, ...]
    rows: tuple[Row, ...]
    orderings: tuple[Ordering, ...]

    @property
    def groups(self) -> tuple[str, ...]:
        """Names of the settings, in their order."""
        return tuple(dict.fromkeys(row.group for row in self.rows))

    def columns_of(self, small: bool) -> tuple[Column, ...]:
        """The columns of the table itself, or of its scaled-down twin."""
        return self.small_columns if small else self.columns

    def choose(self, wanted: Sequence[str]) -> tuple[Row, ...]:
        """The rows that names stand for: group/row, a row in every group that has it, or all of a group.

        Raises:
            ConfigError: a name stands for none.
        """
        names = {row.name for row in self.rows} | set(self.groups) | {row.full_name for row in self.rows}
        for word in wanted:
            if word not in names:
                raise ConfigError("--row", f"{self.name} has no row or group {word}; {meant(word, names)}")
        return tuple(r for r in self.rows if not wanted or {r.name, r.group, r.full_name} & set(wanted))
