"""The run of one row with one seed: its folder, its command and whether it is done."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path

from fl_ddp.absolute_paths import with_absolute_paths
from fl_ddp.command_line import FREE_ON_RESUME, from_file, parse
from fl_ddp.config import Choice, Config
from fl_ddp.config_file import written
from fl_ddp.errors import ConfigError
from fl_ddp.run_folder import RunFolder
from launch.runs import Run, read_run
from launch.table import Row

_PLACE = ("data.root", "data.download")
_OF_MACHINE = {*FREE_ON_RESUME, *_PLACE, "device", "name", "out", "resume"}
"""What may differ between a run in a folder and the one that is wanted there."""


@dataclass(frozen=True)
class RowRun:
    """A run to be made.

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

    @property
    def log(self) -> Path:
        """What the run prints; beside its folder, which does not exist before the run has begun."""
        return self.folder.with_name(f"{self.folder.name}.log")

    @cached_property
    def options(self) -> tuple[str, ...]:
        """Options of fl_ddp.main; data that come with the package need no place, so it is not told them.

        Raises:
            ConfigError: an option of the row is unknown or impossible.
        """
        has_place = not any(_key(each) in _PLACE for each in self.extra) or "root" in self._parsed().data.init_args
        place = (f"--out={self.folder.parent}", f"--name={self.folder.name}")
        return (*self.given, *(each for each in self.extra if has_place or _key(each) not in _PLACE), *place)

    @cached_property
    def config(self) -> Config:
        """All settings of the run.

        Raises:
            ConfigError: an option is unknown or impossible.
        """
        return self._parsed(*self.options[len(self.given) :])

    def command(self, ranks: int) -> list[str]:
        """The command that starts the run, or goes on with what is in its folder.

        Args:
            ranks: number of processes.
        """
        going_on = (self.folder / "config.yaml").is_file()
        options = self.options
        if going_on:
            options = (f"--resume={self.folder}", f"--rounds={self.config.rounds}")
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks > 1 else []
        return [sys.executable, *launcher, "-m", "fl_ddp.main", *options]

    def found(self) -> Run | None:
        """What is in the folder: the run, finished or not, or nothing yet.

        Raises:
            ConfigError: it is not this run.
        """
        run = read_run(self.folder)
        if run is None:
            return None
        different = _differences(from_file(self.folder / "config.yaml"), self.config)
        if different:
            change = "; ".join(f"{key} is {before}, not {after}" for key, before, after in different)
            raise ConfigError(f"{self.folder}: holds another run ({change}); remove it, or choose another --out")
        rounds = self.config.rounds  # a run that went on longer is read as if it had not
        curves = {name: [(r, value) for r, value in curve if r <= rounds] for name, curve in run.curves.items()}
        return replace(run, wanted=rounds, curves=curves)

    def clear(self) -> None:
        """Remove a folder whose run died before it had begun, so that it can begin anew.

        Raises:
            ConfigError: there is something in it, or a run is just beginning there.
        """
        if not self.folder.is_dir() or (self.folder / "config.yaml").is_file():
            return
        with RunFolder(self.folder):
            if any(not path.name.startswith(".") for path in self.folder.iterdir()):
                raise ConfigError(f"{self.folder}: is not the folder of a run; remove it, or choose another --out")
            shutil.rmtree(self.folder)

    def _parsed(self, *over: str) -> Config:
        try:
            return parse((*self.given, *over)).config
        except ConfigError as error:
            raise ConfigError(f"{self.row.table}: {self.row.run.replace('-', '/')}: {error}") from error


def plan(rows: Iterable[Row], seeds: Sequence[int], *, small: bool, out: Path, extra: Sequence[str]) -> list[RowRun]:
    """The runs of some rows, all seeds of one after another.

    Args:
        rows: of a table.
        seeds: of the runs.
        small: the scaled-down twins.
        out: folder of all papers.
        extra: options for every run, over those of its row.
    """
    runs = []
    for row in rows:
        options = {**row.options, **(row.small if small else {})}
        given = [f"--{key}={written(value)}" for key, value in options.items()]
        for seed in seeds:
            folder = out / f"{row.table}{'-small' if small else ''}" / f"{row.run}-seed{seed}"
            runs.append(RowRun(row, seed, folder, (f"--config={row.base}", *given, f"--seed={seed}"), tuple(extra)))
    return runs


def _differences(stored: Config, wanted: Config) -> list[tuple[str, str, str]]:
    """Key, stored and wanted value of what makes two runs different ones."""
    before, after = _flat(with_absolute_paths(stored)), _flat(with_absolute_paths(wanted))
    keys = [key for key in {**before, **after} if key not in _OF_MACHINE and before.get(key) != after.get(key)]
    return [(key, written(before.get(key)), written(after.get(key))) for key in keys]


def _flat(config: Config) -> dict[str, object]:
    values: dict[str, object] = {}
    for each in fields(config):
        value = getattr(config, each.name)
        values[each.name] = value.class_path if isinstance(value, Choice) else value
        if isinstance(value, Choice):
            values |= {f"{each.name}.{key}": option for key, option in value.init_args.items()}
    return values


def _key(option: str) -> str:
    return option.removeprefix("--").partition("=")[0]
