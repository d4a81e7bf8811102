"""The fences between the rooms of the launchers."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import launch

PACKAGE = Path(launch.__file__).parent
TREES = {
    file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")
}
MOST_LINES, MOST_FILES = 400, 12
COMMANDS = ("reproduce", "results", "submit", "sweep")
FLOORS = (
    (*COMMANDS, "__init__"),
    ("executor", "job"),
    ("compare", "tables"),
    ("sweeps", "local", "slurm"),
    ("run",),
    ("numbers",),
    ("input",),
    ("exit_code",),
)
"""Rooms, files at the top and folders, from the commands down to what all of them stand on."""


def imported(file: str) -> set[str]:
    """Full names of all modules and members that a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(TREES[file]):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def importers(package: str) -> set[str]:
    """Rooms of the files that import something of a package."""
    return {room(file) for file in TREES if any(f"{name}.".startswith(f"{package}.") for name in imported(file))}


def room(name: str) -> str:
    """The folder, or the file at the top, that a file or an imported name belongs to."""
    return name.removesuffix(".py").replace("/", ".").removeprefix("launch.").partition(".")[0]


def test_imports_only_go_down() -> None:
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    assert floor.keys() == {room(file) for file in TREES}
    ours = [(file, name) for file in TREES for name in imported(file) if name.startswith("launch.")]
    assert len(ours) > 100
    found = [(file, name) for file, name in ours if room(name) != room(file) and floor[room(name)] <= floor[room(file)]]
    assert found == []


def test_the_package_knows_nothing_of_the_launchers() -> None:
    files = (PACKAGE.parent / "fl_ddp").rglob("*.py")
    assert [file for file in files if "launch." in file.read_text(encoding="utf-8")] == []


def test_one_room_each_knows_slurm_and_plots() -> None:
    assert importers("submitit") == {"slurm"}
    assert importers("matplotlib") == {"compare"}


def test_a_command_line_is_read_before_torch_is_imported() -> None:
    commands = "; ".join(f"from launch import {name}; assert {name}.main(['--help']) == 0" for name in COMMANDS)
    script = f"import sys; {commands}; sys.exit('torch' in sys.modules or 'matplotlib' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (0, "") and ended.stdout.count("usage: ") == len(COMMANDS)


def test_no_folder_is_crowded_and_no_name_repeats_its_folders() -> None:
    folders: dict[str, list[str]] = {}
    for file in TREES:
        folder, _, name = file.rpartition("/")
        if name != "__init__.py":
            folders.setdefault(folder, []).append(name)
    assert {folder: len(names) for folder, names in folders.items() if len(names) > MOST_FILES} == {}
    assert [f"{f}/{n}" for f, names in folders.items() for n in names if f and f.rstrip("s") in n] == []


def test_no_file_is_long() -> None:
    lengths = {file: len((PACKAGE / file).read_text(encoding="utf-8").splitlines()) for file in TREES}
    assert {file: length for file, length in lengths.items() if length > MOST_LINES} == {}
