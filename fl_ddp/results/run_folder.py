"""The folder of a run: its name, and the lock that keeps a second writer out."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from datetime import datetime
from difflib import get_close_matches
from itertools import chain, count
from pathlib import Path
from shlex import quote
from types import TracebackType

from filelock import FileLock, Timeout

from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import this_process

_LONGER_THAN_A_LOOK = 1.0
"""Seconds after which another's lock counts as a writer's."""
_LOCK = ".lock"
_LONGEST_NAME = 160
"""Bytes; most file systems take 255, of which suffixes need some."""
MODEL = "model.safetensors"
"""The model of a run that is over, by the module's own names."""
TASK_MODEL = "task_{}.safetensors"
"""That at the end of a task before the last one, by its number from 1."""
FAILURE = "failure.txt"
"""Says in one line why a run failed; it is not there while the run goes on, or once it is finished."""


class FolderInUseError(ConfigError):
    """Another run holds the folder."""


def default_name(config: Config, now: datetime) -> str:
    """data-method-seed-time, such as digits-FedAvg-seed0-20261121-101500; of data and method what there is room for."""
    what, end = f"{config.data.name.lower()}-{config.method.name}", f"-seed{config.seed}-{now:%Y%m%d-%H%M%S}"
    return what.encode()[: _LONGEST_NAME - len(end)].decode(errors="ignore") + end


def last_round(folder: Path) -> int:
    """The last round that a run's metrics.csv has whole; 0 if none, or if the file is damaged there."""
    file = folder / "metrics.csv"
    try:
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True)[1:] if file.is_file() else []
        whole = [line for line in lines if line.endswith("\n")]
        return int(whole[-1].partition(",")[0]) if whole else 0
    except ValueError:
        return 0


def new_folders(config: Config, now: datetime) -> Iterator[Path]:
    """Folders that a new run may have, the best first: that of --name alone, or of a default name and numbers after it.

    Raises:
        ConfigError: --name is no name of a folder.
    """
    if config.name is not None:
        refuse_no_name(config.name)
    # A class of the user's may be called anything; what a shell or TensorBoard would stumble over is replaced.
    first = Path(config.out) / (config.name or re.sub(r"[^\w.-]", "-", default_name(config, now)))
    return chain([first], (first.with_name(f"{first.name}-{attempt}") for attempt in count(2)))


def refuse_no_name(name: str) -> None:
    """Refuse a --name that no folder can have, or none with files beside it that are called after it.

    Raises:
        ConfigError: it is one.
    """
    if Path(name).name != name or name in ("", ".."):
        raise ConfigError("--name", f"{name!r} is not the name of a folder; its place is given with --out")
    if (size := len(os.fsencode(name))) > _LONGEST_NAME:
        raise ConfigError("--name", f"{name[:20]}... is of {size} bytes", f"up to {_LONGEST_NAME}")


def name_is_taken(path: Path) -> ConfigError:
    """What to tell a user who names a folder that is there."""
    there = f"{path} exists already; go on with it by --resume {quote(str(path))}, or choose another name"
    return ConfigError("--name", there)


def is_held(path: Path) -> bool:
    """Whether a run is writing in a folder now; the look needs no right to write there and hinders no other."""
    try:
        lock = os.open(path / _LOCK, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(lock)
    return False


class RunFolder:
    """A run's folder, held by one writer: rank 0 of one run.

    The lock belongs to the open file, so the system gives it back when the writer closes it or dies in any way.

    Attributes:
        path: the folder.
    """

    def __init__(self, path: Path) -> None:
        """Lock an existing folder.

        Raises:
            FolderInUseError: another run holds it.
            ConfigError: it cannot be written.
        """
        self.path = path
        place = path / _LOCK
        # for a moment is_held() of another process may have it
        self._lock = FileLock(place, timeout=_LONGER_THAN_A_LOOK, thread_local=False, fallback_to_soft=False)
        try:
            self._lock.acquire()
            place.write_text(f"{this_process()}\n")
        except Timeout as error:
            holder = place.read_text(errors="replace").strip()
            raise FolderInUseError(
                path, f"another run is writing in this folder ({holder}); wait until it ends, or stop it"
            ) from error
        except OSError as error:
            self.close()
            raise ConfigError(
                path, f"this run folder cannot be written or locked ({error.strerror}); choose another with --out"
            ) from error

    @classmethod
    def create(cls, config: Config, now: datetime) -> RunFolder:
        """Make and lock the folder of a new run: --name in --out, or a default name nobody took.

        Raises:
            ConfigError: the name is taken or no name of a folder, or --out cannot be written.
        """
        out = Path(config.out)
        paths = new_folders(config, now)
        try:
            out.mkdir(parents=True, exist_ok=True)
            for path in paths:
                try:
                    path.mkdir()
                    return cls(path)
                except FileExistsError:
                    if config.name is not None:
                        raise name_is_taken(path) from None
        except OSError as error:
            raise ConfigError(
                "--out", f"{out} cannot be written ({error.strerror}); choose another folder with --out"
            ) from error
        raise AssertionError("there is always another name")

    @classmethod
    def reopen(cls, path: Path) -> RunFolder:
        """Lock the folder of an earlier run.

        Raises:
            ConfigError: it is no run's folder, another run holds it, or it cannot be written.
        """
        if not (path / "config.yaml").is_file():
            problem = "has no config.yaml, so it is not the folder of a run" if path.is_dir() else "does not exist"
            runs = [file.parent.name for file in path.parent.glob("*/config.yaml")]
            near = get_close_matches(path.name, runs, 1)
            hint = f"; did you mean {path.parent / near[0]}?" if near else ""
            raise ConfigError("--resume", f"{path} {problem}{hint}")
        return cls(path)

    def leave_empty(self) -> None:
        """Remove the lock's file where there is nothing else in the folder, which can be removed then."""
        if [each.name for each in self.path.iterdir()] == [_LOCK]:
            (self.path / _LOCK).unlink()

    def close(self) -> None:
        """Give the lock back; a second call does nothing."""
        self._lock.release()

    def __enter__(self) -> RunFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
