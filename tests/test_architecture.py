"""The fences between the parts of the package."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from fences import (
    crowded,
    cycle,
    extras,
    foreign,
    importable,
    imported,
    importing_by_name,
    imports,
    nested,
    reaches,
    repeating,
    rooms_imported,
    sources,
    too_long,
    upward,
    using,
)
from launching import one_thread

import fl_ddp
from fl_ddp.main import main

PACKAGE = Path(fl_ddp.__file__).parent
TREES = sources(PACKAGE)
IMPORTS = imports(TREES)
KEPT = {"datasets/dataset.py", "partitions/partition.py", "streams/stream.py"}
"""Files of base classes, which users' files of before api.py import."""
KERNELS = {"compiler/dense_kernel.py"}
"""Files of Triton's kernels, which import Triton at once and are themselves imported where they are used."""
FLOORS = (
    ("api", "main", "check"),
    ("__init__",),
    ("worker",),
    ("run",),
    ("notebook",),
    ("simulation",),
    ("records",),
    ("run_files",),
    ("run_tables",),
    ("evaluation",),
    ("federation",),
    ("building",),
    ("tasks",),
    ("retention",),
    ("course",),
    ("results",),
    ("ranks",),
    ("versions",),
    ("config",),
    ("methods",),
    ("importance", "clients"),
    ("network",),
    ("engine", "datasets", "models", "partitions", "streams"),
    ("compiler", "guards", "losses", "optimizers"),
    ("convolutions",),
    ("protocol", "host", "arithmetic"),
    ("bounds", "reading"),
    ("errors", "version"),
)
"""Rooms of the package, files at its top and folders, from the story of a run down to what all of it stands on."""


def test_imports_only_go_down() -> None:
    assert upward("fl_ddp", IMPORTS, FLOORS) == []


def test_no_files_import_each_other() -> None:
    assert cycle("fl_ddp", IMPORTS) == []


def test_what_is_imported_is_installed_with_the_package() -> None:
    # triton comes with builds of torch that know GPUs
    assert foreign(IMPORTS, {"fl_ddp", "triton"} | importable(PACKAGE.parent / "setup.cfg")) == []


def test_what_may_be_missing_is_imported_where_it_is_used() -> None:
    optional = extras(PACKAGE.parent / "setup.cfg")
    tops = [(file, node) for file, tree in TREES.items() for node in tree.body]
    imports = [(file, node) for file, node in tops if isinstance(node, ast.Import | ast.ImportFrom)]
    at_once = {(file, name) for file, node in imports for name in imported(ast.Module([node], []))}
    assert optional
    assert {file for file, name in at_once if name.partition(".")[0] in optional} == KERNELS
    kernels = [f"fl_ddp.{_module(file)}" for file in KERNELS]
    assert not {name for _, name in at_once if any(reaches(name, kernel) for kernel in kernels)}


def _module(file: str) -> str:
    """The name of a file's module in the package."""
    return file.removesuffix(".py").replace("/", ".")


def test_only_names_of_classes_are_imported_by_name() -> None:
    of_classes = ["check/preloaded.py", "config/absolute_paths.py", "config/registry.py"]
    looking = ["datasets/digits.py", "guards/drawn_by_imports.py"]  # for a file, and at others' imports
    assert importing_by_name(TREES) == [*of_classes, *looking]


def test_two_files_alone_know_of_ranks() -> None:
    found = [file for file, names in IMPORTS.items() if any(reaches(name, "torch.distributed") for name in names)]
    assert found == ["ranks/collectives.py", "ranks/meeting.py"]


def test_one_function_looks_for_homes() -> None:
    # a home that is not known is refused there; streams have a word of their own for it
    assert using("expanduser", TREES) == {"reading/homes.py"}


def rooms_below(folder: str) -> set[str]:
    """The rooms that the files of a folder import, itself aside."""
    return rooms_imported(folder, "fl_ddp", IMPORTS)


def test_the_engine_knows_the_protocol_alone() -> None:
    assert rooms_below("engine") == {"compiler", "errors", "guards", "protocol", "optimizers"}
    assert rooms_below("compiler") == {"convolutions", "errors", "host"}
    assert rooms_below("network") == {"convolutions", "errors", "guards", "protocol", "engine", "losses"}
    for room in ("importance", "clients"):
        assert rooms_below(room) <= {"compiler", "errors", "protocol", "engine", "network", "losses", "optimizers"}


def test_nothing_names_a_method_but_the_protocol() -> None:
    found = {(file, name) for file, names in IMPORTS.items() for name in names if reaches(name, "fl_ddp.methods")}
    assert {name for file, name in found} == {"fl_ddp.methods.fedavg.FedAvg"}
    others = {file for file, _ in found if not file.startswith("methods/")}
    checks = {"check/candidate.py", "check/rules.py"}
    built = {f"building/{file}.py" for file in ("lanes", "method", "optimizer", "remarks")}
    assert others == {"api.py", "tasks/world.py", "federation.py"} | built | checks


def test_methods_know_nothing_of_ranks_rounds_and_files() -> None:
    below = {"bounds", "errors", "guards", "protocol", "engine", "network", "losses", "importance", "clients"}
    assert rooms_below("methods") == below


def test_data_models_and_partitions_know_nothing_of_the_engine() -> None:
    for folder in ("datasets", "models", "partitions", "streams", "optimizers", "losses"):
        assert rooms_below(folder) <= {"bounds", "errors", "guards", "protocol", "host", "reading"}


def test_no_folder_is_crowded_or_in_another_and_no_name_repeats_its_folders() -> None:
    assert crowded(TREES) == {}
    assert nested(TREES) == []
    assert repeating(TREES) == KEPT


def test_no_file_is_long() -> None:
    assert too_long(PACKAGE) == {}


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
        if {"main", "step"} <= {name for _, name in frames}:  # another thread of the group's has no main
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
