"""One row of a table with one seed, and the trial that this asks for."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from fl_ddp.config.command_line import PLACE, parse
from fl_ddp.config.settings import Config
from fl_ddp.config.yaml_file import written
from fl_ddp.errors import ConfigError
from launch.input.words import key_of
from launch.run.trial import Trial
from launch.tables.rows import Row

_SEED = re.compile(r"-seed(0|[1-9]\d*)$")


@dataclass(frozen=True)
class SeededRow:
    """A row with a seed.

    Attributes:
        row: of the table.
        seed: of the run.
        folder: of the run.
        given: options of fl_ddp.main that the row and its seed ask for.
        extra: options over those, as --key=value or --key.
    """

    row: Row
    seed: int
    folder: Path
    given: tuple[str, ...]
    extra: tuple[str, ...]

    @property
    def label(self) -> str:
        """What messages call it."""
        return f"{self.row.full_name} seed {self.seed}"

    @cached_property
    def trial(self) -> Trial:
        """The run that is to be made; data that come with the package need no place, so it is not told them.

        Raises:
            ConfigError: an option is unknown or impossible.
        """
        has_place = not any(key_of(each) in PLACE for each in self.extra) or "root" in self._parsed().data.init_args
        extra = [each for each in self.extra if has_place or key_of(each) not in PLACE]
        _ = self._parsed(*extra)
        return Trial(self.label, self.folder, (*self.given, *extra), of_recipe=True)

    def _parsed(self, *over: str) -> Config:
        try:
            return parse((*self.given, *over))
        except ConfigError as error:
            raise error.within(f"{self.row.table}: {self.row.run.replace('-', '/')}") from error


def seeded_rows(
    rows: Iterable[Row], seeds: Sequence[int], *, small: bool, out: Path, extra: Sequence[str]
) -> list[SeededRow]:
    """Some rows with all seeds, those of one row after another.

    Args:
        rows: of a table.
        seeds: of the runs.
        small: the scaled-down twins.
        out: folder of all papers.
        extra: options for every run, over those of its row.
    """
    found = []
    for row in rows:
        options = {**row.options, **(row.small if small else {})}
        given = [f"--{key}={written(value)}" for key, value in options.items()]
        for seed in seeds:
            folder = out / f"{row.table}{'-small' if small else ''}" / f"{row.run}-seed{seed}"
            found.append(SeededRow(row, seed, folder, (f"--config={row.base}", *given, f"--seed={seed}"), tuple(extra)))
    return found


def seeds_beside(rows: Iterable[SeededRow]) -> set[int]:
    """Seeds of all runs that lie beside those of some rows."""
    beside = (path for folder in {each.folder.parent for each in rows} for path in folder.glob("*-seed*/"))
    return {int(found[1]) for path in beside if (found := _SEED.search(path.name))}
