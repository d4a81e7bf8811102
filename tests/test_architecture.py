"""The fences between the parts of the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import fl_ddp

PACKAGE = Path(fl_ddp.__file__).parent
TREES = {
    file.relative_to(PACKAGE).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in PACKAGE.rglob("*.py")
}
ENGINE = [file for file in TREES if "/" not in file]
MOST_LINES = 400
# what knows of ranks, of the order of a round, or of files
ABOVE_METHODS = ("torch.distributed", *(f"fl_ddp.{name}" for name in (
    "collectives", "simulation", "worker", "main", "records", "population", "federation", "registry", "checkpoint",
)))  # fmt: skip


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


def test_only_collectives_knows_of_ranks() -> None:
    found = [file for file in TREES if any(reaches(name, "torch.distributed") for name in imported(file))]
    assert found == ["collectives.py"]


def test_engine_names_no_method_but_the_protocol() -> None:
    found = {(file, name) for file in ENGINE for name in imported(file) if reaches(name, "fl_ddp.methods")}
    assert found <= {("federation.py", "fl_ddp.methods.fedavg.FedAvg")}


def test_methods_know_nothing_of_ranks_rounds_and_files() -> None:
    files = [file for file in TREES if file.startswith("methods/")]
    assert len(files) > 1
    assert [(f, n) for f in files for n in imported(f) if any(reaches(n, module) for module in ABOVE_METHODS)] == []


def test_methods_import_no_other_method() -> None:
    fedavg = "fl_ddp.methods.fedavg.FedAvg"
    files = [file for file in TREES if file.startswith("methods/")]
    found = [(f, n) for f in files for n in imported(f) if reaches(n, "fl_ddp.methods") and n != fedavg]
    assert found == []


def test_data_models_and_partitions_know_nothing_of_the_engine() -> None:
    parts = [file for file in TREES if file.startswith(("datasets/", "models/", "partitions/"))]
    above = [*ABOVE_METHODS, "fl_ddp.group", "fl_ddp.step", "fl_ddp.methods"]
    assert [(f, n) for f in parts for n in imported(f) if any(reaches(n, module) for module in above)] == []


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
