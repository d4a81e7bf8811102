"""Files of the user's that files import which lie beside them."""

from __future__ import annotations

import ast
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from fl_ddp.errors import is_users


def imported_files(files: Iterable[Path]) -> set[Path]:
    """Files of the user's that lie beside some, or in packages there, and are imported by them, or by each other.

    As their text has it, wherever in it: nothing is imported to know it.
    """
    found, waiting = set[Path](), [*files]
    while waiting:
        new = {file for file in _imported_by(waiting.pop()) if is_users(str(file.absolute()))} - found
        found |= new
        waiting += new
    return found


def _imported_by(file: Path) -> Iterator[Path]:
    with suppress(OSError):  # whoever imports it is told
        yield from imported_in(file.read_bytes(), file)


def imported_in(text: bytes, file: Path) -> Iterator[Path]:
    """What some of a file's text imports that lies beside it."""
    for level, names in _imports_in(text):
        if level:
            yield from _beside(file.parents[:level][-1], names)
        elif names[0] not in sys.stdlib_module_names:  # which come first, whatever lies in the folder
            yield from _beside(_root(file), names)


@lru_cache
def _imports_in(text: bytes) -> list[tuple[int, list[str]]]:
    """Of each import in a file how many folders it goes up, and its names; launchers ask for each of many runs."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # as above
        return []
    found: list[tuple[int, list[str]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(0, each.name.split(".")) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            found += [(node.level, [*module, each.name]) for each in node.names]
    return found


def _root(file: Path) -> Path:
    """The folder that holds a file, or the package that it is in."""
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _beside(folder: Path, names: list[str]) -> Iterator[Path]:
    """The files of a module and of the packages around it; its last names may be of something in it."""
    for name in names:
        for file in (folder / f"{name}.py", folder / name / "__init__.py"):
            if file.is_file():
                yield file
        folder /= name
