"""The runs below some folders, whether they are finished, going on or failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from fl_ddp.config.registry import KINDS
from fl_ddp.config.yaml_file import flatten, written
from fl_ddp.errors import ConfigError
from fl_ddp.results.run_folder import is_held
from launch.run.log import log_beside, reported_error
from launch.run.stored import Run, read_run
from launch.sweeps.folder import FILE, read_sweep

RunState = Literal["finished", "running", "stopped", "failed"]


@dataclass(frozen=True)
class FoundRun:
    """A run that has begun.

    Attributes:
        run: what it left so far.
        state: how it is with it.
    """

    run: Run
    state: RunState

    @cached_property
    def settings(self) -> Mapping[str, str]:
        """Its options by name as tables show them; classes that come with the package by their names."""
        given = flatten(self.run.config, "")
        return {one.key: _short(one.value) if one.key in KINDS else _shown(one.value) for one in given}

    @property
    def seed(self) -> int:
        """Of the run."""
        return int(self.settings["seed"])


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


def find_runs(folders: Sequence[Path]) -> Finds:
    """Read the runs in some folders: sweeps, runs, or folders of either.

    Raises:
        ConfigError: there is none in one of them, or a file is not what a run writes.
    """
    failed: dict[Path, str] = {}
    waiting: dict[Path, None] = {}
    places: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(folder, "is no folder", "that of a sweep, of a run or of several runs")
        sweeps = sorted(path.parent for path in folder.rglob(FILE))
        points = 0
        for sweep in sweeps:
            entries = read_sweep(sweep).entries
            points += len(entries)
            failed |= {sweep / name: entry.failed for name, entry in entries.items() if entry.failed}
            waiting |= {sweep / name: None for name in entries if not (sweep / name / "config.yaml").is_file()}
        inside = sorted(
            path.parent for path in folder.rglob("config.yaml") if path.parent == folder or _begun(path.parent)
        )
        if not inside and not points:
            raise ConfigError(folder, "holds no runs", "the folder of a sweep, of a run or of several runs")
        places |= dict.fromkeys(inside)
    runs = [run for run in map(read_run, places) if run]
    for run in runs:
        if run.ended or is_held(run.folder):
            failed.pop(run.folder, None)
        elif run.folder not in failed and (why := reported_error(log_beside(run.folder))):
            failed[run.folder] = why
    found = (FoundRun(run, _state(run, failed)) for run in runs)
    return Finds(tuple(found), failed, tuple(path for path in waiting if path not in failed))


def _begun(folder: Path) -> bool:
    """Whether a folder with a config.yaml is a run's; others may keep such a file, too."""
    return (folder / "metrics.csv").exists() or (folder / ".lock").exists()


def _state(run: Run, failed: Mapping[Path, str]) -> RunState:
    if run.ended:
        return "finished"
    if run.folder in failed:
        return "failed"
    return "running" if is_held(run.folder) else "stopped"


def _shown(value: object) -> str:
    return f"{value:.12g}" if isinstance(value, float) else written(value)


def _short(class_path: object) -> str:
    path = str(class_path)
    return path.rpartition(".")[2] if path.startswith("fl_ddp.") else path
