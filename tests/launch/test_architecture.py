"""The fences between the rooms of the launchers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from fences import (
    crowded,
    cycle,
    foreign,
    importable,
    importing_by_name,
    imports,
    inner,
    nested,
    reaches,
    repeating,
    room,
    sources,
    too_long,
    upward,
    using,
)

import launch

PACKAGE = Path(launch.__file__).parent
TREES = sources(PACKAGE)
IMPORTS = imports(TREES)
COMMANDS = ("reconstruct", "reproduce", "results", "submit", "sweep")
FLOORS = (
    (*COMMANDS, "__init__"),
    ("executor", "job"),
    ("plots",),
    ("compare", "tables"),
    ("sweeps", "local", "slurm", "privacy"),
    ("run",),
    ("numbers",),
    ("input",),
    ("exit_code",),
)
"""Rooms, files at the top and folders, from the commands down to what all of them stand on."""


def importers(package: str) -> set[str]:
    """Rooms of the files that import something of a package."""
    return {room(file) for file, names in IMPORTS.items() if any(reaches(name, package) for name in names)}


def test_imports_only_go_down() -> None:
    assert len(list(inner("launch", IMPORTS))) > 100
    assert upward("launch", IMPORTS, FLOORS) == []


def test_no_files_import_each_other() -> None:
    assert cycle("launch", IMPORTS) == []


def test_what_is_imported_is_installed_with_the_package() -> None:
    assert foreign(IMPORTS, {"launch", "fl_ddp"} | importable(PACKAGE.parent / "setup.cfg")) == []
    assert importing_by_name(TREES) == []


def test_one_room_each_knows_slurm_and_plots() -> None:
    assert importers("submitit") == {"slurm"}
    assert importers("matplotlib") == {"plots"}


def test_homes_are_looked_for_by_the_package() -> None:
    assert using("expanduser", TREES) == set()


def test_a_command_line_is_read_before_torch_is_imported() -> None:
    commands = "; ".join(f"from launch import {name}; assert {name}.main(['--help']) == 0" for name in COMMANDS)
    script = f"import sys; {commands}; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "") and ended.stdout.count("usage: ") == len(COMMANDS)


def test_no_folder_is_crowded_or_in_another_and_no_name_repeats_its_folders() -> None:
    assert crowded(TREES) == {}
    assert nested(TREES) == []
    assert repeating(TREES) == set()


def test_no_file_is_long() -> None:
    assert too_long(PACKAGE) == {}
