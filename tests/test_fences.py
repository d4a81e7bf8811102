"""The fences are no decoration: each refuses what is planted."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from fences import (
    MOST_FILES,
    MOST_LINES,
    crowded,
    cycle,
    dependencies,
    extras,
    foreign,
    importing_by_name,
    imports,
    nested,
    repeating,
    sources,
    too_long,
    upward,
    using,
)

FLOORS = (("api",), ("__init__",), ("results",), ("engine",), ("errors",))
FILES = {
    "api.py": "from fl_ddp import simulate",
    "__init__.py": "from fl_ddp.results.summary import write",
    "results/summary.py": "import json\nfrom fl_ddp.engine import group\nimport yaml.nodes",
    "engine/group.py": "from fl_ddp.engine.seeds import uniform\nimport fl_ddp.errors",
    "engine/seeds.py": "import torch",
    "errors.py": "",
}
KNOWN = {"fl_ddp", "json", "yaml", "torch"}


def planted(file: str = "api.py", line: str = "") -> dict[str, ast.Module]:
    """The files of a small package, one of them with a line more."""
    return {name: ast.parse(f"{text}\n{line if name == file else ''}") for name, text in FILES.items()}


def test_a_package_without_plants_passes() -> None:
    names = imports(planted())
    assert upward("fl_ddp", names, FLOORS) == foreign(names, KNOWN) == []
    assert cycle("fl_ddp", names) == []
    assert crowded(FILES) == {} and repeating(FILES) == set() and nested(FILES) == []
    assert importing_by_name(planted("engine/seeds.py", "from importlib.metadata import version; model.eval()")) == []


@pytest.mark.parametrize(
    ("file", "line", "name"),
    [
        ("errors.py", "from fl_ddp import simulate", "fl_ddp.simulate"),
        ("engine/seeds.py", "from fl_ddp import simulate as start", "fl_ddp.simulate"),
        ("engine/seeds.py", "def later():\n    from fl_ddp.results import summary", "fl_ddp.results.summary"),
        ("engine/seeds.py", "from fl_ddp import __version__", "fl_ddp.__version__"),
        ("engine/seeds.py", "from fl_ddp import *", "fl_ddp.*"),
        ("engine/seeds.py", "import fl_ddp.nowhere", "fl_ddp.nowhere"),
        ("engine/group.py", "fl_ddp.results.summary.write()", "fl_ddp.results.summary.write"),
    ],
)
def test_what_is_not_below_is_refused_by_its_name(file: str, line: str, name: str) -> None:
    assert (file, name) in upward("fl_ddp", imports(planted(file, line)), FLOORS)


def test_a_cycle_is_found_in_a_room_too() -> None:
    names = imports(planted("engine/seeds.py", "def later():\n    from fl_ddp.engine.group import Group"))
    assert upward("fl_ddp", names, FLOORS) == []
    found = cycle("fl_ddp", names)
    assert set(found) == {"engine/group.py", "engine/seeds.py"} and found[0] == found[-1]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("from launch import sweep", "launch.sweep"),
        ("import launch", "launch"),
        ("import golden", "golden"),
        ("import pytest", "pytest"),
        ("from . import seeds", "..seeds"),
        ("from .seeds import uniform", ".seeds.uniform"),
    ],
)
def test_only_what_is_declared_may_be_imported(line: str, name: str) -> None:
    assert foreign(imports(planted("engine/group.py", line)), KNOWN) == [("engine/group.py", name)]


def test_dependencies_are_those_of_an_installation(tmp_path: Path) -> None:
    setup = tmp_path / "setup.cfg"
    setup.write_text(
        "[options]\ninstall_requires =\n    torch>=2.11\n    docstring-parser\n    Pillow\n"
        "[options.extras_require]\nmore =\n    datasets\ntest =\n    pytest\n"
    )
    assert dependencies(setup) == {"torch", "docstring_parser", "PIL"}
    assert extras(setup) == {"datasets"}


@pytest.mark.parametrize(
    "line",
    [
        'import importlib\nimportlib.import_module("fl_ddp.results.summary")',
        'from importlib import import_module as get\nget("fl_ddp.results.summary")',
        'import importlib.metadata\nimportlib.import_module("fl_ddp.results.summary")',
        '__import__("fl_ddp.results.summary")',
        'exec("import fl_ddp.results.summary")',
        'import runpy\nrunpy.run_module("fl_ddp.results.summary")',
    ],
)
def test_an_import_of_what_a_text_names_is_seen(line: str) -> None:
    assert importing_by_name(planted("engine/seeds.py", line)) == ["engine/seeds.py"]


@pytest.mark.parametrize(
    "line",
    [
        "torch.distributed.barrier()",
        "import torch as t; t.distributed.barrier()",
        "from torch import distributed",
        "import torch.distributed as dist",
    ],
)
def test_a_part_of_a_module_counts_as_imported_where_it_is_used(line: str) -> None:
    names = imports(planted("engine/seeds.py", line))["engine/seeds.py"]
    assert any(f"{name}.".startswith("torch.distributed.") for name in names)


@pytest.mark.parametrize(
    "line", ["Path('~').expanduser()", "def late(path):\n    return path.expanduser", "a.b.expanduser"]
)
def test_the_use_of_a_method_is_seen(line: str) -> None:
    assert using("expanduser", planted("engine/seeds.py", line)) == {"engine/seeds.py"}
    assert using("expanduser", planted("engine/seeds.py", "'expanduser'; expanduser = 1")) == set()


def test_folders_are_looked_at_however_deep() -> None:
    many = [f"engine/sub/part{number}.py" for number in range(MOST_FILES + 1)]
    assert crowded([*many, "engine/sub/__init__.py"]) == {"engine/sub": MOST_FILES + 1}
    assert crowded(many[1:]) == {}
    assert crowded(file.replace("engine/sub", "reference/methods") for file in many) == {}
    assert nested([*FILES, "engine/sub/part.py"]) == ["engine/sub/part.py"]


def test_names_repeat_no_folder() -> None:
    assert repeating(["methods/my_method.py", "engine/sub/engine.py", "methods/mine.py", "method.py"]) == {
        "methods/my_method.py",
        "engine/sub/engine.py",
    }


def test_long_files_are_told_with_their_length(tmp_path: Path) -> None:
    for name, lines in {"short.py": MOST_LINES, "long.py": MOST_LINES + 1}.items():
        (tmp_path / name).write_text("\n" * lines)
    assert too_long(tmp_path) == {str(tmp_path / "long.py"): MOST_LINES + 1}
    assert sources(tmp_path).keys() == {"long.py", "short.py"}


TESTS = Path(__file__).parent


def test_no_folder_of_tests_is_crowded_and_no_file_long() -> None:
    files = (file for file in TESTS.rglob("*") if file.is_file() and "__pycache__" not in file.parts)
    assert crowded(file.relative_to(TESTS).as_posix() for file in files) == {}
    assert too_long(TESTS) == {}
