"""What runs recorded as long tables, a row for each of theirs: for plots and models that are made elsewhere."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from os.path import abspath, commonpath
from pathlib import Path

from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import replacing, writing
from fl_ddp.results.written_rows import written_rows
from launch.compare.replicates import ROW, Design
from launch.run.stored import Run

_RECORDED = {
    "rounds.csv": "metrics.csv",
    "clients.csv": "clients.csv",
    "tasks.csv": "tasks.csv",
    "own_tasks.csv": "own_tasks.csv",
}
"""What of a run is in which table."""


@dataclass(frozen=True)
class LongTable:
    """Rows that runs have in their files of one name, one below the other.

    Attributes:
        name: of its file.
        columns: what the tables say of a run, and then all that its file says, which some runs may lack.
        runs: whose rows it has, with what it says of each.
        recorded: name of their files.
    """

    name: str
    columns: tuple[str, ...]
    runs: tuple[tuple[Run, tuple[str, ...]], ...]
    recorded: str

    def write(self, folder: Path) -> None:
        """Replace the table in a folder, of which no more than a row is held.

        Raises:
            ConfigError: a file of a run is not what it writes.
            RunError: it cannot be written; the old one is untouched.
        """
        path = folder / self.name
        with writing(path), replacing(path) as file:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="")
            table = csv.writer(text, lineterminator="\n")
            table.writerow(self.columns)
            for run, told in self.runs:
                # what cannot be written is no fault of what is read, so that it is written outside of _rows()
                table.writerows((*told, *cells) for cells in _rows(run, self.recorded, self.columns[len(told) :]))
            text.detach()  # which flushes it, and leaves the file open


def long_tables(design: Design, folders: Sequence[Path]) -> tuple[LongTable, ...]:
    """The tables of runs, finished or not, each seed once: of rounds and, where one has such, of clients and tasks.

    What is said of a run is its folder, its seed, and the options that differ, as a command line spells them: so that
    --loss is no loss. What a run recorded is called as it is in its file.

    Args:
        design: of the runs.
        folders: that they were found in; a run's is told from the one given, or from that in which all of them lie.

    Raises:
        ConfigError: a run's file has a column that is called like what is said of it, or is not what a run writes.
    """
    own = ("run", "seed", *(key if key == ROW else f"--{key}" for key in design.keys))
    found = [(each.run, replicates.values) for replicates in design.sets for each in replicates.runs]
    names = _names([run.folder for run, _ in found], folders)
    runs = tuple((run, (name, str(run.seed), *values)) for name, (run, values) in zip(names, found, strict=True))
    tables = []
    for name, recorded in _RECORDED.items():
        beside = [run.folder / recorded for run, _ in runs if (run.folder / recorded).is_file()]
        if beside or name == "rounds.csv":
            columns = dict.fromkeys(("round", *(column for path in beside for column in _columns(path, own))))
            tables.append(LongTable(name, (*own, *columns), runs, recorded))
    return tuple(tables)


def refuse_folder_of_run(folder: Path, runs: Iterable[Run]) -> None:
    """Refuse to leave long tables beside the files of a run, one of which has the name of one of them.

    Args:
        folder: where they would be left.
        runs: that were read, one of which may have no metrics.csv yet.

    Raises:
        ConfigError: it is a run's.
    """
    if (folder / "metrics.csv").exists() or folder.absolute() in [run.folder.absolute() for run in runs]:
        what = f"{folder} is the folder of a run, where clients.csv and tasks.csv are its own"
        raise ConfigError("--long", what, "--out FOLDER, another one")


def _columns(path: Path, own: Sequence[str]) -> tuple[str, ...]:
    """The columns of a run's file; raises ConfigError as long_tables() does."""
    with written_rows(path) as rows:
        columns = tuple(rows.fieldnames or ())
    for column in columns:
        if column in own:
            raise ConfigError(path, f"has a column {column}, which --long has of its own")
    return columns


def _rows(run: Run, recorded: str, columns: Sequence[str]) -> Iterator[list[str | None]]:
    """Rows of a run's file up to the round that was its last when it was read, cells in the order of some columns."""
    with written_rows(run.folder / recorded) as rows:
        for row in rows:
            if int(row["round"]) <= run.rounds:
                yield [row.get(column) for column in columns]


def _names(runs: Sequence[Path], folders: Sequence[Path]) -> list[str]:
    """Folders of runs as they are called from one in which all of them lie, and which is none of them."""
    # a run may be a link to a folder elsewhere
    places = [Path(abspath(run)) for run in runs]  # noqa: PTH100
    base = Path(commonpath(map(abspath, folders)))
    base = base.parent if base in places else base
    return [place.relative_to(base).as_posix() for place in places]
