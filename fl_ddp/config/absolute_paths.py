"""A configuration that means the same in every working folder."""

from __future__ import annotations

import importlib
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from fl_ddp.config.beside_file import FILES, PATHS, WORDS_OR_FILES, is_enrolment_file
from fl_ddp.config.registry import KINDS
from fl_ddp.config.settings import Choice, Config

PLACES = (*FILES, "root")
"""Names of options of a choice that are files or places of the machine."""


def with_absolute_paths(config: Config) -> Config:
    """A copy whose relative paths, and classes from files, start at the root instead of the working folder.

    A path that is empty or starts with ~ stays, so does the import path of a class in a package.
    """
    return replace(_with_absolute(config, PLACES), out=_absolute(config.out))


def with_absolute_files(config: Config) -> Config:
    """The same for what beside_file.py looks for beside a YAML file, wherever this is going to lie."""
    return _with_absolute(config, FILES)


def _with_absolute(config: Config, names: Collection[str]) -> Config:
    choices = {kind: _anchored(getattr(config, kind), names) for kind in KINDS}
    given = {name: getattr(config, name) for name in (*PATHS, *WORDS_OR_FILES)}
    paths = {k: _absolute(v) for k, v in given.items() if v and (k in PATHS or v.endswith(".csv"))}
    measures = tuple(map(_class_path, config.measures))
    return replace(config, measures=measures, **paths, **choices)  # type: ignore[arg-type]


def _anchored(choice: Choice, names: Collection[str]) -> Choice:
    values = {
        name: _absolute(value)
        if isinstance(value, str) and (name in names or is_enrolment_file(name, value))
        else value
        for name, value in choice.init_args.items()
    }
    return Choice(_class_path(choice.class_path), values)


def _class_path(path: str) -> str:
    file, _, name = path.rpartition(":")
    if file:
        return f"{_absolute(file)}:{name}"
    module, _, name = path.rpartition(".")
    # a notebook has no file, and importing a script by its file would run it again
    if module != "__main__" and "." not in module and (found := importlib.import_module(module).__file__):
        place = Path(found)
        if place.parent == Path.cwd() and place.suffix == ".py" and place.name != "__init__.py":
            return f"{place}:{name}"
    return path


def _absolute(path: str) -> str:
    return path if not path or path.startswith("~") else str(Path(path).resolve())
