"""Points of a sweep listed in a file: a CSV table with a head of keys, or a YAML list of mappings."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from fl_ddp.config.beside_file import beside
from fl_ddp.config.yaml_file import flatten, load_yaml, written
from fl_ddp.errors import ConfigError
from launch.input import fields
from launch.sweeps.points import Axis, Point, check_key


def read_points(path: Path) -> Axis:
    """The points that a file lists.

    Args:
        path: of a .csv file, in which an empty cell leaves its key as it is, or of a .yaml file. Files that it names
            are looked for beside it.

    Raises:
        ConfigError: it cannot be read, is malformed, or lists nothing or a point twice.
    """
    source = f"--points {path}"
    if path.suffix not in (".csv", ".yaml", ".yml"):
        raise ConfigError(source, "is no list of points", "a .csv or .yaml file")
    seen: dict[str, str] = {}
    points = []
    for where, point in _table(path, source) if path.suffix == ".csv" else _listing(path, source):
        if not point:
            raise ConfigError(where, "names no option", "lines such as lr: 0.1")
        text = ", ".join(f"{check_key(key, where)}={value}" for key, value in sorted(point.items()))
        if text in seen:
            raise ConfigError(where, f"{text} is {seen[text].removeprefix(source).lstrip(': ')} already")
        seen[text] = where
        points.append(point)
    if not points:
        raise ConfigError(source, "lists no points")
    return Axis(source, tuple(points))


def _table(path: Path, source: str) -> Iterator[tuple[str, Point]]:
    try:
        head, *lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise ConfigError(source, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(source, "is not a text file in UTF-8") from error
    keys = [check_key(cell, f"{source}: line 1") for cell in _cells(head, f"{source}: line 1")]
    if len(set(keys)) < len(keys):
        raise ConfigError(source, "line 1: a key stands there twice")
    for number, line in enumerate(lines, 2):
        where = f"{source}: line {number}"
        cells = _cells(line, where)
        if not any(cells):
            continue
        if len(cells) != len(keys):
            raise ConfigError(where, f"has {len(cells)} cells", f"{len(keys)}, as the first line")
        yield where, {key: str(beside(path, key, cell)) for key, cell in zip(keys, cells, strict=True) if cell}


def _cells(line: str, where: str) -> list[str]:
    """Of one line of a table."""
    rows = csv.reader([f"{line}\n", "\n"], skipinitialspace=True)
    try:
        cells = next(rows)
    except csv.Error as error:
        raise ConfigError(where, f"is no line of a table ({error})") from error
    if rows.line_num > 1:  # it takes the next one for more of its last cell
        raise ConfigError(where, "a quote is not closed", "cells of one line each")
    return [cell.strip() for cell in cells]


def _listing(path: Path, source: str) -> Iterator[tuple[str, Mapping[str, str]]]:
    for number, each in enumerate(fields.listing(load_yaml(path), source), 1):
        where = f"{source}: point {number}"
        given = flatten(fields.mapping(each, where), f"{where}: ")
        yield where, {one.key: written(beside(path, one.key, one.value)) for one in given}
