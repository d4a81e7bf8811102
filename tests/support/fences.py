"""What the fences between the parts of a package are read off: its files and what each of them imports."""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from configparser import ConfigParser
from graphlib import CycleError, TopologicalSorter
from pathlib import Path, PurePosixPath

Imports = Mapping[str, set[str]]
"""Of each file of a package, by its path in it, the full names of all modules and members that it uses."""
Floors = Sequence[Sequence[str]]
"""Rooms of a package, files at its top and folders, from those that use all others down to what all stand on."""

MOST_LINES, MOST_FILES = 400, 13
CHOICES = {"methods", "datasets", "partitions", "models", "optimizers"}
"""Names of folders that have a file for each thing that can be chosen."""
UNLIKE = {"Pillow": "PIL", "PyYAML": "yaml", "scikit-learn": "sklearn"}
"""How distributions are imported whose modules have another name."""
TYPES_ALONE = {"_typeshed"}
"""What only type checkers have."""
BY_NAME = {"__import__", "eval", "exec", "import_module"}
"""Functions that import what a text names."""
IMPORTERS = {"importlib", "pkgutil", "runpy"}
"""Modules of such functions; importlib.metadata only reads."""


def sources(folder: Path) -> dict[str, ast.Module]:
    """The files of a package."""
    files = sorted(folder.rglob("*.py"))
    return {file.relative_to(folder).as_posix(): ast.parse(file.read_text(encoding="utf-8")) for file in files}


def imported(tree: ast.Module) -> set[str]:
    """Full names of what a file imports, wherever in it, and of what it uses of modules; a dot begins relative ones."""
    names: set[str] = set()
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
            for alias in node.names:
                top = alias.name.partition(".")[0]
                modules[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{'.' * node.level}{node.module or ''}.{alias.name}" for alias in node.names}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            first, _, rest = _dotted(node).partition(".")
            if first in modules:
                names.add(f"{modules[first]}.{rest}")
    return names


def _dotted(node: ast.expr) -> str:
    """A path such as torch.distributed.barrier; empty where it does not begin with a name."""
    if isinstance(node, ast.Attribute) and (before := _dotted(node.value)):
        return f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else ""


def imports(trees: Mapping[str, ast.Module]) -> Imports:
    """What each file of a package imports."""
    return {file: imported(tree) for file, tree in trees.items()}


def reaches(name: str, module: str) -> bool:
    """Whether an imported name is a module or something in it."""
    return f"{name}.".startswith(f"{module}.")


def file_of(name: str, package: str, files: Iterable[str]) -> str | None:
    """The file of a package that an imported name stands in; None if it is of no file of the package."""
    first, *parts = name.split(".")
    if first != package:
        return None
    for end in range(len(parts), 0, -1):
        path = "/".join(parts[:end])
        found = {f"{path}.py", f"{path}/__init__.py"}.intersection(files)
        if found:
            return found.pop()
    return "__init__.py"


def room(file: str) -> str:
    """The folder, or the file at the top of the package, that a file belongs to."""
    return file.removesuffix(".py").partition("/")[0]


def inner(package: str, names: Imports) -> Iterator[tuple[str, str, str]]:
    """Every import of a package's file by another: who imports, the name, the file that has it."""
    for file in names:
        for name in sorted(names[file]):
            if (source := file_of(name, package, names)) not in (None, file):
                yield file, name, str(source)


def rooms_imported(folder: str, package: str, names: Imports) -> set[str]:
    """The rooms that the files of a folder import, itself aside."""
    assert sum(room(file) == folder for file in names) > 1
    return {room(source) for file, _, source in inner(package, names) if room(file) == folder} - {folder}


def upward(package: str, names: Imports, floors: Floors) -> list[tuple[str, str]]:
    """Imports of what is not below the file that imports it, and not in its room."""
    floor = {name: number for number, rooms in enumerate(floors) for name in rooms}
    assert floor.keys() == {room(file) for file in names}
    return [
        (file, name)
        for file, name, source in inner(package, names)
        if room(source) != room(file) and floor[room(source)] <= floor[room(file)]
    ]


def cycle(package: str, names: Imports) -> list[str]:
    """Files of which each imports the next, and the last is the first; empty if there are none."""
    graph: dict[str, set[str]] = {}
    for file, _, source in inner(package, names):
        graph.setdefault(file, set()).add(source)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found[::-1]
    return []


def foreign(names: Imports, known: Iterable[str]) -> list[tuple[str, str]]:
    """Imports from elsewhere than some packages."""
    return [(file, name) for file in names for name in sorted(names[file]) if name.partition(".")[0] not in set(known)]


def dependencies(setup: Path) -> set[str]:
    """Packages that come with an installation, as they are imported."""
    config = ConfigParser()
    config.read_string(setup.read_text(encoding="utf-8"))
    required = (line.partition(">")[0] for line in config["options"]["install_requires"].split())
    return {UNLIKE.get(each, each.replace("-", "_")) for each in required}


def extras(setup: Path) -> set[str]:
    """Packages that come with what an installation may have beside, its tests' aside, as they are imported."""
    config = ConfigParser()
    config.read_string(setup.read_text(encoding="utf-8"))
    return {
        each for name, listed in config["options.extras_require"].items() if name != "test" for each in listed.split()
    }


def importable(setup: Path) -> set[str]:
    """What a package may import beside itself, as setup.cfg declares it."""
    return dependencies(setup) | extras(setup) | sys.stdlib_module_names | TYPES_ALONE


def importing_by_name(trees: Mapping[str, ast.Module]) -> list[str]:
    """Files that can import what a text names, which no other fence sees."""
    return [file for file, tree in trees.items() if _imports_by_name(tree)]


def _imports_by_name(tree: ast.Module) -> bool:
    names = {name for name in imported(tree) if not reaches(name, "importlib.metadata")}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return any(reaches(name, module) for name in names for module in IMPORTERS) or not used.isdisjoint(BY_NAME)


def using(name: str, trees: Mapping[str, ast.Module]) -> set[str]:
    """Files that use an attribute of a name, a method say, whatever it is of."""
    nodes = ((file, node) for file, tree in trees.items() for node in ast.walk(tree))
    return {file for file, node in nodes if isinstance(node, ast.Attribute) and node.attr == name}


def crowded(files: Iterable[str]) -> dict[str, int]:
    """Folders of too many files, with their number; one with a file for each choice has as many as there are."""
    kept = (PurePosixPath(file) for file in files)
    numbers = Counter(file.parent for file in kept if file.name != "__init__.py" and file.parent.name not in CHOICES)
    return {str(folder): number for folder, number in numbers.items() if number > MOST_FILES}


def repeating(files: Iterable[str]) -> set[str]:
    """Files whose names repeat that of a folder they are in."""
    return {file for file in files if _repeats(PurePosixPath(file))}


def _repeats(file: PurePosixPath) -> bool:
    return any(folder.rstrip("s") in file.stem for folder in file.parts[:-1])


def nested(files: Iterable[str]) -> list[str]:
    """Files in a folder in a folder, which would be a room without a floor."""
    return [file for file in files if file.count("/") > 1]


def too_long(folder: Path) -> dict[str, int]:
    """Python files of too many lines, with their number."""
    lengths = {str(file): len(file.read_text(encoding="utf-8").splitlines()) for file in folder.rglob("*.py")}
    return {file: length for file, length in lengths.items() if length > MOST_LINES}
