"""The runs below some folders, whether they are finished, going on or failed."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

from fl_ddp.config.command_line import PLACE
from fl_ddp.config.registry import KINDS
from fl_ddp.config.yaml_file import flatten, written
from fl_ddp.datasets.place import by_root, telling_root
from fl_ddp.errors import ConfigError
from fl_ddp.results.run_folder import is_held
from launch.run.failure import why_failed
from launch.run.stored import Run, read_run
from launch.sweeps.folder import SWEEP_FILE, Entry, read_sweep

_BESIDE = (".log", ".failure.json", ".job.json", ".slurm")
"""How the names of files and folders end that launchers keep beside that of a run."""

_OF_MODULE, _DIGITS = "model.sha256", 8
"""The option of a module that a notebook has given, and how much of it tables have room for."""

RunState = Literal["finished", "running", "stopped", "failed"]


@dataclass(frozen=True)
class FoundRun:
    """A run that has begun.

    Attributes:
        run: what it left so far.
        state: how it is with it.
        root: of its data, if it says which they are; one for all runs of the same data.
    """

    run: Run
    state: RunState
    root: str | None = None

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Its options by name as tables show them, wherever its data lie; classes of the package by their names."""
        given = flatten(self.run.config, "")
        shown = {one.key: _short(one.value) if one.key in KINDS else _shown(one.value) for one in given}
        if len(module := shown.get(_OF_MODULE, "")) > _DIGITS:
            # never a number, as digits alone may be one
            shown[_OF_MODULE] = f"{module[:_DIGITS]}..."
        places = {} if self.root is None else {"data.root": self.root}
        return {key: places.get(key, each) for key, each in shown.items() if key in places or key not in PLACE}

    @property
    def seed(self) -> int:
        """Of the run."""
        return self.run.seed


@dataclass(frozen=True)
class Finds:
    """What lies in some folders.

    Attributes:
        runs: that have begun.
        failed: why a run failed, by its folder.
        waiting: points of sweeps that have not begun, by their folders.
    """

    runs: tuple[FoundRun, ...]
    failed: Mapping[Path, str]
    waiting: tuple[Path, ...]


def named_folders(words: Sequence[str]) -> list[Path]:
    """Folders as a command line names them; a glob such as runs/b-* gives what lies beside the runs, too."""
    named = [Path(each) for each in words]
    beside = {each for each in named if each.name.endswith(_BESIDE) and each.exists() and not _runs_in(each)}
    return [each for each in named if each not in beside] or named


def find_runs(folders: Sequence[Path], *, reconstructions: bool = True) -> Finds:
    """Read the runs in some folders: sweeps, runs, or folders of either.

    Args:
        folders: to look through.
        reconstructions: whether what launch.reconstruct left in them is read, too.

    Raises:
        ConfigError: there is none in one of them, or the files of none are what a run writes.
    """
    points: dict[Path, Entry] = {}
    begun: dict[Path, None] = {}
    failed, found, broken = dict[Path, str](), list[FoundRun](), list[ConfigError]()
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(folder, "is no folder", "that of a sweep, of a run or of several runs")
        listed, damaged = _points(folder)
        runs = _runs_in(folder)
        for sweep, error in damaged.items():  # which hides no other sweep, and none of its own runs
            broken.append(error)
            failed[sweep] = str(error)
        if not runs and not listed and not damaged:
            raise ConfigError(folder, "holds no runs", "the folder of a sweep, of a run or of several runs")
        points |= listed
        begun |= dict.fromkeys([*runs, *(place for place in listed if (place / "config.yaml").is_file())])
    points = {place: points[place] for place in _each_once(points, points)}
    failed |= {place: entry.failed for place, entry in points.items() if entry.failed}
    for place in _each_once(begun, points):
        try:
            run = read_run(place, reconstructions=reconstructions)
        except ConfigError as error:  # which hides no other run
            broken.append(error)
            failed[place] = str(error)
            continue
        if run is None:
            continue
        state: RunState = "finished" if run.ended else "running" if is_held(run.folder) else "stopped"
        if state != "stopped":
            failed.pop(run.folder, None)
        elif why := failed.get(run.folder) or run.failure or why_failed(run.folder):
            state, failed[run.folder] = "failed", why
        found.append(FoundRun(run, state))
    if broken and not found:
        raise broken[0]
    waiting = (place for place in points if place not in failed and not (place / "config.yaml").is_file())
    return Finds(tuple(_with_roots(found)), failed, tuple(waiting))


def _with_roots(runs: Sequence[FoundRun]) -> Iterator[FoundRun]:
    """Runs with the roots of their data, those of the same data with one."""
    roots = [telling_root({one.key: one.value for one in flatten(each.run.config, "")}) for each in runs]
    known = by_root(filter(None, roots))
    for each, root in zip(runs, roots, strict=True):
        yield replace(each, root=known[root] if root else None)


def _points(folder: Path) -> tuple[dict[Path, Entry], dict[Path, ConfigError]]:
    """The points of all sweeps in a folder, by the folders of their runs, and what is wrong with others by theirs."""
    points, damaged = dict[Path, Entry](), dict[Path, ConfigError]()
    for sweep in _with_file(folder, SWEEP_FILE):
        try:
            points |= {sweep / name: entry for name, entry in read_sweep(sweep).entries.items()}
        except ConfigError as error:
            damaged[sweep] = error
    return points, damaged


def _runs_in(folder: Path) -> list[Path]:
    runs = [place for place in _with_file(folder, "config.yaml") if _is_run(place)]
    alone = (folder / "config.yaml").is_file() and not (folder / SWEEP_FILE).is_file()
    return runs or ([folder] if alone else [])


def _with_file(folder: Path, name: str) -> list[Path]:
    """The folders below one, itself included, in which there is a file of a name."""
    return sorted(place for place in _folders(folder) if (place / name).is_file())


def _folders(folder: Path) -> Iterator[Path]:
    """All folders below one, itself included, each once: first those that lie there, then those that links lead to."""
    seen, ways = set[Path](), [folder]
    while ways:
        for place, inner, _ in os.walk(ways.pop(0)):
            here = Path(place)
            if (real := here.resolve()) in seen:
                inner.clear()
                continue
            seen.add(real)
            ways += sorted(below for name in inner if (below := here / name).is_symlink())
            yield here


def _each_once(places: Iterable[Path], points: Collection[Path]) -> list[Path]:
    """Each run's folder once, of several that are the same a sweep's point, of which its sweep may say more."""
    by_real = dict[Path, Path]()
    for place in places:
        known = by_real.setdefault(place.resolve(), place)
        if known not in points and place in points:
            by_real[place.resolve()] = place
    return [*by_real.values()]


def _is_run(folder: Path) -> bool:
    """Whether a folder with a config.yaml is a run's; others may keep such a file, too, and a sweep's is locked."""
    begun = (folder / ".lock").exists() and not (folder / SWEEP_FILE).is_file()
    return begun or (folder / "metrics.csv").exists()


def _shown(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else written(value)


def _short(class_path: object) -> str:
    path = str(class_path)
    return path.rpartition(".")[2] if path.startswith("fl_ddp.") else path
