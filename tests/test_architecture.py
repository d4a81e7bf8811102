"""The fences between the parts of the package."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from launching import one_thread

import fl_ddp
from fl_ddp.main import main

PACKAGE = Path(fl_ddp.__file__).parent
TREES = {
    file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")
}
MOST_LINES, MOST_FILES = 400, 13
KEPT = ("datasets", "methods", "models", "partitions")
"""Folders whose names of classes stand in stored configurations."""
FLOORS = (
    ("api", "main"),
    ("__init__",),
    ("worker",),
    ("run",),
    ("simulation",),
    ("records",),
    ("run_files",),
    ("evaluation",),
    ("federation",),
    ("results",),
    ("ranks",),
    ("config",),
    ("methods",),
    ("importance",),
    ("engine", "datasets", "models", "partitions"),
    ("protocol", "host"),
    ("bounds",),
    ("errors", "version"),
)
"""Rooms of the package, files at its top and folders, from the story of a run down to what all of it stands on."""


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


def reaches(name: str, module: str) -> bool:
    """Whether an imported name is a module or something in it."""
    return f"{name}.".startswith(f"{module}.")


def room(name: str) -> str:
    """The folder, or the file at the top of the package, that a file or an imported name belongs to."""
    return name.removesuffix(".py").replace("/", ".").removeprefix("fl_ddp.").partition(".")[0]


def rooms_imported(folder: str) -> set[str]:
    """The rooms that the files of a folder import, itself aside."""
    files = [file for file in TREES if file.startswith(f"{folder}/")]
    assert len(files) > 1
    names = {name for file in files for name in imported(file) if reaches(name, "fl_ddp")}
    return {room(name) for name in names} - {folder}


def test_imports_only_go_down() -> None:
    floor = {name: number for number, names in enumerate(FLOORS) for name in names}
    assert floor.keys() == {room(file) for file in TREES}
    found = [
        (file, name)
        for file in TREES
        for name in imported(file)
        if reaches(name, "fl_ddp") and room(name) not in (room(file), "version") and name != "fl_ddp.simulate"
        if floor[room(name)] <= floor[room(file)]
    ]
    assert found == []


def test_only_collectives_knows_of_ranks() -> None:
    found = [file for file in TREES if any(reaches(name, "torch.distributed") for name in imported(file))]
    assert found == ["ranks/collectives.py"]


def test_the_engine_knows_the_protocol_alone() -> None:
    assert rooms_imported("engine") == {"errors", "protocol"}
    assert rooms_imported("importance") <= {"errors", "protocol", "engine"}


def test_nothing_names_a_method_but_the_protocol() -> None:
    found = {(file, name) for file in TREES for name in imported(file) if reaches(name, "fl_ddp.methods")}
    assert {name for file, name in found} == {"fl_ddp.methods.fedavg.FedAvg"}
    assert {file for file, _ in found if not file.startswith("methods/")} == {"api.py", "federation.py"}


def test_methods_know_nothing_of_ranks_rounds_and_files() -> None:
    assert rooms_imported("methods") == {"bounds", "errors", "protocol", "engine", "importance"}


def test_data_models_and_partitions_know_nothing_of_the_engine() -> None:
    for folder in ("datasets", "models", "partitions"):
        assert rooms_imported(folder) <= {"bounds", "errors", "protocol", "host"}


def test_no_folder_is_crowded_and_no_name_repeats_its_folders() -> None:
    folders: dict[str, list[str]] = {}
    for file in TREES:
        folder, _, name = file.rpartition("/")
        if name != "__init__.py":
            folders.setdefault(folder, []).append(name)
    assert {folder: len(names) for folder, names in folders.items() if len(names) > MOST_FILES} == {}
    repeated = {(f, n) for f, names in folders.items() for n in names if f and f.rstrip("s") in n}
    assert {folder for folder, _ in repeated} <= set(KEPT)


def test_no_file_is_long() -> None:
    lengths = {file: len((PACKAGE / file).read_text(encoding="utf-8").splitlines()) for file in TREES}
    assert {file: length for file, length in lengths.items() if length > MOST_LINES} == {}


def test_everything_public_has_a_docstring() -> None:
    assert [f"{file}: {name}" for file, tree in TREES.items() for name in undocumented(tree)] == []


def undocumented(tree: ast.Module) -> Iterator[str]:
    """Names of what is public in a file and has no docstring; the stubs of a Protocol need none."""
    if not ast.get_docstring(tree):
        yield "the module"
    for node in public(tree):
        if not ast.get_docstring(node):
            yield node.name
        if isinstance(node, ast.ClassDef):
            for method in public(node):
                stub = isinstance(method.body[-1], ast.Expr) and isinstance(method.body[-1].value, ast.Constant)
                if not ast.get_docstring(method) and not stub:
                    yield f"{node.name}.{method.name}"


def public(parent: ast.Module | ast.ClassDef) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    """Functions and classes whose names do not begin with an underscore."""
    for node in parent.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
            yield node


DEEPEST = 10
"""Frames from main() to the local step, both counted."""
LOOKS_UP = """
import json, traceback
from pathlib import Path
from fl_ddp.models.mlp import MLP

class LooksUp(MLP):
    def forward(self, x):
        frames = [[frame.filename, frame.name] for frame in traceback.extract_stack()]
        if any(name == "step" for _, name in frames):
            Path("frames.json").write_text(json.dumps(frames))
        return super().forward(x)
"""


def test_the_local_step_is_near_main(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("looks_up.py").write_text(LOOKS_UP)
    words = ["--model=looks_up.py:LooksUp", "--rounds=1", "--compile=false", "--device=cpu", f"--out={tmp_path}"]
    with one_thread():
        assert main(words) == 0
    frames = [(file, name) for file, name in json.loads(Path("frames.json").read_text())]
    first = frames.index((str(PACKAGE / "main.py"), "main"))
    last = frames.index((str(PACKAGE / "engine" / "step.py"), "step"))
    assert last - first + 1 <= DEEPEST, frames[first : last + 1]
