"""A trial: a run that is to be made in a folder of its own, what starts it, and whether it is done."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, replace
from filecmp import cmp
from functools import cached_property
from pathlib import Path

from fl_ddp.config import registry
from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.command_line import FREE_ON_RESUME, MAY_MOVE, OF_MACHINE, PLACE, from_file, parse
from fl_ddp.config.settings import Config, by_key
from fl_ddp.config.yaml_file import written
from fl_ddp.datasets.place import same_root, telling_root
from fl_ddp.errors import ConfigError
from fl_ddp.reading.homes import users_path
from fl_ddp.results.run_folder import RunFolder
from launch.input.words import key_of
from launch.run.log import log_beside
from launch.run.stored import Run, read_run

ENDING = ("stop_at", "patience")
"""Options by which a run ends before its last round."""


class OtherRunError(ConfigError):
    """A run of other settings is in the folder."""


@dataclass(frozen=True)
class Trial:
    """A run to be made.

    Attributes:
        label: what messages call it.
        folder: of the run.
        options: of fl_ddp.main, as --key=value or --key; without --name and --out.
        of_recipe: whether they name their data otherwise, so that a root is theirs wherever it is.
    """

    label: str
    folder: Path
    options: tuple[str, ...]
    of_recipe: bool = False

    @property
    def log(self) -> Path:
        """What the run prints."""
        return log_beside(self.folder)

    @cached_property
    def config(self) -> Config:
        """All settings of the run.

        Raises:
            ConfigError: an option is unknown or impossible.
        """
        return parse(self._first_options())

    @property
    def free_options(self) -> tuple[str, ...]:
        """Options of fl_ddp.main that may change when the run goes on; where data lie only if it is said or is new."""
        values = {key: getattr(self.config, key) for key in FREE_ON_RESUME}
        data = with_absolute_paths(self.config).data.init_args
        said = [key for key in PLACE if key in {key_of(option) for option in self.options}]
        values |= {key: data[key.removeprefix("data.")] for key in said} | _moved(self.folder, self.config)
        return tuple(f"--{key}={written(value)}" for key, value in values.items())

    def options_now(self) -> tuple[str, ...]:
        """Options of fl_ddp.main that start the run, or go on with what is in its folder."""
        return starting_options(self.folder, self._first_options(), self.free_options)

    def command(self, ranks: int) -> list[str]:
        """The command that starts the run here, or goes on with what is in its folder.

        Args:
            ranks: number of processes.
        """
        launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks > 1 else []
        return [sys.executable, *launcher, "-m", "fl_ddp.main", *self.options_now()]

    def read_run(self) -> Run | None:
        """What is in the folder: the run, finished or not, or nothing yet.

        Raises:
            OtherRunError: it is not this run.
            ConfigError: its files are damaged.
        """
        run = read_run(self.folder)
        if run is None:
            return None
        stored = from_file(self.folder / "config.yaml")
        different = [*_differences(stored, self.config), *self._other_data(stored)]
        if different:
            change = "; ".join(f"{key} is {before}, not {after}" for key, before, after in different)
            raise OtherRunError(
                self.folder,
                f"holds another run ({change}); choose another --out or --name, or, in a sweep, let --grid or --points "
                "name what differs",
            )
        rounds = self.config.rounds  # a run that went on longer is read as if it had not
        ended_by = {key: run.config.get(key) for key in ENDING}
        ends_so = ended_by == {key: getattr(self.config, key) for key in ENDING}
        return replace(run.after(rounds), wanted=rounds, stopped=run.stopped and ends_so)

    def is_finished(self) -> bool:
        """Whether the run has all its rounds, in files that can be read.

        Raises:
            OtherRunError: another run is in the folder.
        """
        found = self._found()  # damage is told when the run is made, and stops none of the others
        return isinstance(found, Run) and found.ended

    def damage(self) -> str | None:
        """Why the files of the run cannot be read; None where they can, or there is none.

        Raises:
            OtherRunError: another run is in the folder.
        """
        found = self._found()
        return str(found) if isinstance(found, ConfigError) else None

    def _found(self) -> Run | ConfigError | None:
        """As read_run(), and what is wrong with files that are damaged."""
        try:
            return self.read_run()
        except OtherRunError:
            raise
        except ConfigError as error:
            return error

    def _other_data(self, stored: Config) -> list[tuple[str, str, str]]:
        """The root of the data, if it is said, and tells that they are others than those of the run in the folder."""
        root = telling_root(by_key(self.config))
        if self.of_recipe or root is None or root == self._own_root():
            return []
        there, here = (telling_root(by_key(with_absolute_paths(each))) for each in (stored, self.config))
        return [] if there is None or here is None or same_root(there, here) else [("data.root", there, here)]

    def _own_root(self) -> object:
        """What the data's class has where nobody says a root."""
        owner = registry.load("data", self.config.data.class_path)
        return registry.options("data", owner).by_name["root"].default

    def _first_options(self) -> tuple[str, ...]:
        return (*self.options, f"--out={self.folder.parent}", f"--name={self.folder.name}")


def starting_options(folder: Path, first: tuple[str, ...], free: tuple[str, ...]) -> tuple[str, ...]:
    """Options of fl_ddp.main that begin a run in a folder, or go on with the one that has begun there.

    Args:
        folder: of the run.
        first: options that begin it.
        free: those that may be others when it goes on.
    """
    return (f"--resume={folder}", *free) if _has_begun(folder) else first


def clear(folder: Path, elsewhere: str = "--out") -> None:
    """Remove a folder whose run died before it had begun, so that it can begin anew.

    Args:
        folder: of the run.
        elsewhere: what the user may choose another of, for the message.

    Raises:
        ConfigError: there is something in it, or a run is just beginning there.
    """
    if not folder.is_dir() or _has_begun(folder):
        return
    with RunFolder(folder):
        if any(not path.name.startswith(".") for path in folder.iterdir()):
            raise ConfigError(folder, f"is not the folder of a run; remove it, or choose another {elsewhere}")
        shutil.rmtree(folder)


def _has_begun(folder: Path) -> bool:
    return (folder / "config.yaml").is_file()


def _moved(folder: Path, config: Config) -> dict[str, object]:
    """Files that the run in a folder has elsewhere, where they lie now."""
    if not _has_begun(folder):
        return {}
    before, after = by_key(with_absolute_paths(from_file(folder / "config.yaml"))), by_key(with_absolute_paths(config))
    files = {key: (before.get(key), after.get(key)) for key in MAY_MOVE}
    return {key: now for key, (there, now) in files.items() if there != now and _alike(there, now)}


def _differences(stored: Config, wanted: Config) -> list[tuple[str, str, str]]:
    """Key, stored and wanted value of what makes two runs different ones."""
    before, after = by_key(with_absolute_paths(stored)), by_key(with_absolute_paths(wanted))
    free = set(OF_MACHINE) - ({"rounds"} if stored.depends_on_rounds else set())
    keys = [key for key in {**before, **after} if key not in free and not _alike(before.get(key), after.get(key))]
    return [(key, written(before.get(key)), written(after.get(key))) for key in keys]


def _alike(before: object, after: object) -> bool:
    """Whether two values are the same, or files that hold the same, of a recipe in another checkout, say; or one moved.

    Of that a run looks at what it holds when it goes on.
    """
    if before == after or not isinstance(before, str) or not isinstance(after, str):
        return before == after
    try:
        there, here = users_path("path", before), users_path("path", after)
    except ConfigError:
        return False
    if not (there.is_absolute() and here.is_absolute() and here.is_file()):
        return False
    return cmp(there, here, shallow=False) if there.is_file() else not there.exists() and there.name == here.name
