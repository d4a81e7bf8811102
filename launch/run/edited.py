"""Runs that are of another version of a file of the user's than others, or than it has now, or of another device."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from fl_ddp.errors import ConfigError
from fl_ddp.versions.users_code import edited, users_code
from launch.run.stored import Run
from launch.run.trial import Trial


def tell_of_edited(trials: Sequence[Trial]) -> None:
    """Warn of those that are finished, and not made again, whose code's files have been edited since."""
    folders_of: dict[str, list[Path]] = {}
    for trial in trials:
        with suppress(ConfigError):  # what is wrong with it is said when it is made
            run = trial.read_run()
            before, now = (versions(run), users_code(trial.config)) if run and run.ended else ({}, {})
            for file in edited(before, now):
                folders_of.setdefault(file, []).append(trial.folder)
    for file, folders in folders_of.items():
        what = (
            f"finished before {file} was edited: {runs_in_words(folders)}; remove their folders to have them made anew"
        )
        print(f"warning: {what}", file=sys.stderr)


def tell_of_devices(trials: Sequence[Trial]) -> None:
    """Warn of those that go on where they began, and are asked to elsewhere; auto asks for nothing."""
    elsewhere: dict[str, list[Path]] = {}
    for trial in trials:
        with suppress(ConfigError):  # what is wrong with it is said when it is made
            wanted = trial.config.device
            run = trial.read_run() if wanted != "auto" else None
            began = str(run.config.get("device")) if run and not run.ended else wanted
            if began not in (wanted, "auto"):
                elsewhere.setdefault(began, []).append(trial.folder)
    for device, folders in elsewhere.items():
        print(
            f"warning: begun with --device {device}, and going on with that: {runs_in_words(folders)}", file=sys.stderr
        )


def differing_versions(runs: Sequence[Run]) -> list[str]:
    """What to say of files of which some runs are of one version, and some of another."""
    of_file: dict[str, dict[str, list[Path]]] = {}
    for run in runs:
        for file, version in versions(run).items():
            of_file.setdefault(file, {}).setdefault(version, []).append(run.folder)
    differing = {file: by_version.values() for file, by_version in of_file.items() if len(by_version) > 1}
    return [
        f"of different versions of {file}: {'; '.join(runs_in_words(folders) for folders in groups)}"
        for file, groups in differing.items()
    ]


def versions(run: Run) -> Mapping[str, str]:
    """The sha256 of each file of the user's that a finished run's code is in; older runs cannot tell."""
    code = run.summary.get("code")
    return code if isinstance(code, dict) else {}


def runs_in_words(folders: Sequence[Path]) -> str:
    """Such as 3 runs (b-seed0 and others)."""
    some = folders[0].name + (" and others" if len(folders) > 1 else "")
    return f"{len(folders)} run{'s' * (len(folders) > 1)} ({some})"
