"""Tables as files: configs/<paper>/<table>.table.yaml, read and checked strictly."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import cast, get_args

from fl_ddp.config.beside_file import beside
from fl_ddp.config.options import meant
from fl_ddp.config.yaml_file import load_yaml
from fl_ddp.errors import ConfigError
from launch.input import fields
from launch.numbers.metric import parse_metric
from launch.tables.ordering import Ordering, parse_ordering
from launch.tables.rows import Column, Content, Follows, Row, Table

_BESIDE = Path(__file__).parents[2] / "configs"
CONFIGS = _BESIDE if _BESIDE.is_dir() else Path(sysconfig.get_path("data")) / "share" / "fl_ddp" / "configs"
"""Recipes, of a checkout or as a wheel installs them."""
ENDING = ".table.yaml"

_TEXTS = ("id", "paper", "item", "title", "cost")


def table_names() -> list[str]:
    """All tables that come with the project, by name: figure2 comes before figure10."""
    names = (file.relative_to(CONFIGS).as_posix().removesuffix(ENDING) for file in CONFIGS.glob(f"*/*{ENDING}"))
    return sorted(names, key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])


def load_table(name: str) -> Table:
    """Read a table.

    Args:
        name: paper/table of those that come with the project, or the path of a file.

    Raises:
        ConfigError: there is none, or it is not written as a table is; the message names file and key.
    """
    if name.endswith(ENDING):
        return _table(Path(name))
    known = table_names()
    if not known:
        raise ConfigError(name, "no tables come with this installation", f"the path of a *{ENDING} file")
    if name not in known:
        raise ConfigError(name, f"there is no such table; {meant(name, known)}, or the path of a *{ENDING} file")
    return _table(CONFIGS / f"{name}{ENDING}")


def _table(path: Path) -> Table:
    content = _content(path)
    small = fields.mapping(content.get("small", {}), f"{path}: small")
    fields.keys(small, (), ("options", "columns"), f"{path}: small.")
    columns = _columns(content["columns"], f"{path}: columns")
    replaced = _columns(small.get("columns", {}), f"{path}: small.columns")
    for column in replaced:
        _known_column(column.name, columns, f"{path}: small.columns")
    rows = tuple(_rows(path, content, follow=True))
    note = fields.text(content.get("note", ""), f"{path}: note").strip()
    table = Table(
        _name(path),
        **{key: fields.text(content[key], f"{path}: {key}") for key in _TEXTS},
        note=note,
        columns=columns,
        small_columns=tuple({each.name: each for each in (*columns, *replaced)}.values()),
        rows=rows,
        orderings=(),
    )
    for row in rows:
        for column_name in row.expected:
            _known_column(column_name, columns, f"{path}: groups.{row.group}.rows.{row.name}.expect")
    for metric in (metric for column in (*columns, *replaced) for metric in column.metrics if metric.other_row):
        for group in table.groups:
            if f"{group}/{metric.other_row}" not in {row.full_name for row in rows}:
                raise ConfigError(path, f"columns: {metric.text!r}: group {group} has no row {metric.other_row}")
    listed = fields.listing(content.get("orderings", []), f"{path}: orderings")
    orderings = (_ordering(each, f"{path}: orderings[{i}]", table) for i, each in enumerate(listed))
    return replace(table, orderings=tuple(orderings))


def _name(path: Path) -> str:
    return f"{path.resolve().parent.name}/{path.name.removesuffix(ENDING)}"


def _content(path: Path) -> dict[str, object]:
    content = fields.mapping(load_yaml(path), f"{path}")
    fields.keys(content, (*_TEXTS, "columns", "groups"), ("note", "small", "orderings"), f"{path}: ")
    return content


def _columns(content: object, where: str) -> tuple[Column, ...]:
    columns = []
    for name, given in fields.mapping(content, where).items():
        texts = given if isinstance(given, list) else [given]
        place = f"{where}.{name}"
        metrics = tuple(parse_metric(fields.text(text, place), place) for text in texts)
        if not metrics:
            raise ConfigError(place, "names no metric")
        columns.append(Column(name, metrics))
    return tuple(columns)


def _known_column(name: str, columns: tuple[Column, ...], where: str) -> None:
    known = [column.name for column in columns]
    if name not in known:
        raise ConfigError(f"{where}.{name}", f"there is no such column; {meant(name, known)}")


def _rows(path: Path, content: Content, *, follow: bool) -> Iterator[Row]:
    """The rows of all groups; those that are runs of other tables only if they are to be followed."""
    small = fields.mapping(content.get("small", {}), f"{path}: small").get("options", {})
    twin = _options(path, small, f"{path}: small.options")
    others: dict[Path, dict[str, Row]] = {}
    for group, given in fields.mapping(content["groups"], f"{path}: groups").items():
        where = f"{path}: groups.{group}"
        fields.name(group, where)
        settings = fields.mapping(given, where)
        fields.keys(settings, ("rows",), ("base", "variant", "options", "small"), f"{where}.")
        start = _start(path, group, settings, twin, where)
        for name, each in fields.mapping(settings["rows"], f"{where}.rows").items():
            here = f"{where}.rows.{name}"
            fields.name(name, here)
            row = fields.mapping(each, here)
            if "run" not in row:
                if "base" not in settings:
                    raise ConfigError(
                        f"{where}.base", "is missing; rows without run: need the configuration they change"
                    )
                yield _row(path, start, name, row, here)
            elif follow:
                fields.keys(row, ("run",), ("expect",), f"{here}.")
                found = _elsewhere(path, fields.text(row["run"], f"{here}.run"), f"{here}.run", others)
                yield replace(found, group=group, name=name, expected=_expected(row, here))


def _start(path: Path, group: str, settings: Content, twin: Content, where: str) -> Row:
    """What the rows of a group have in common."""
    base = path.with_name(fields.text(settings.get("base", path.name), f"{where}.base"))
    if not base.is_file():
        raise ConfigError(f"{where}.base", f"{base} does not exist", "a configuration beside the table")
    variant = settings.get("variant", "paper")
    if variant not in get_args(Follows):
        raise ConfigError(f"{where}.variant", f"{variant} is unknown", " or ".join(get_args(Follows)))
    options, small = (_options(path, settings.get(key, {}), f"{where}.{key}") for key in ("options", "small"))
    return Row(group, "", cast(Follows, variant), _name(path), "", base, options, {**twin, **small}, {})


def _options(path: Path, content: object, where: str) -> Content:
    """Options of runs, whose files lie beside the table's."""
    return {key: beside(path, key, value) for key, value in fields.mapping(content, where).items()}


def _row(path: Path, start: Row, name: str, content: Content, where: str) -> Row:
    own = _options(path, {key: value for key, value in content.items() if key not in ("expect", "small")}, where)
    small = _options(path, content.get("small", {}), f"{where}.small")
    return replace(
        start,
        name=name,
        run=f"{start.group}-{name}",
        options={**start.options, **own},
        small={**start.small, **small},
        expected=_expected(content, where),
    )


def _expected(content: Content, where: str) -> Mapping[str, float]:
    given = fields.mapping(content.get("expect", {}), f"{where}.expect")
    return {column: fields.number(value, f"{where}.expect.{column}") for column, value in given.items()}


def _elsewhere(path: Path, text: str, where: str, others: dict[Path, dict[str, Row]]) -> Row:
    """The row of another table of the same paper, as table1/group/row.

    Args:
        path: of the table that names it.
        text: its name.
        where: it stands, for messages.
        others: rows of the tables that were read before, to which this one's are added.
    """
    file, _, full_name = text.partition("/")
    other = path.with_name(f"{file}{ENDING}")
    if not full_name or not other.is_file() or other == path:
        raise ConfigError(where, f"{text} is no run", "table/group/row of another table beside this one")
    if other not in others:
        others[other] = {row.full_name: row for row in _rows(other, _content(other), follow=False)}
    own = others[other]
    if full_name not in own:
        raise ConfigError(where, f"{other} has no run {full_name} of its own; {meant(full_name, own)}")
    return own[full_name]


def _ordering(given: object, where: str, table: Table) -> Ordering:
    content = fields.mapping(given, where)
    fields.keys(content, ("order", "column"), ("tolerance", "groups", "small", "before", "remark"), f"{where}.")
    text = fields.text(content["order"], f"{where}.order")
    names, relations = parse_ordering(text, f"{where}.order")
    column = fields.text(content["column"], f"{where}.column")
    _known_column(column, table.columns, f"{where}.column")
    tolerance = _tolerance(content.get("tolerance", 0), where)
    if ("tolerance" in content) != ("~" in relations):
        given = "belongs to ~ alone" if tolerance else "is missing"
        raise ConfigError(f"{where}.tolerance", f"{given}; < and > are strict, ~ names how far apart a pair may be")
    of_group = {group: {row.name for row in table.rows if row.group == group} for group in table.groups}
    fitting = [group for group, rows in of_group.items() if rows >= set(names)]
    named = fields.listing(content.get("groups", fitting), f"{where}.groups")
    for group in named:
        if group not in of_group:
            raise ConfigError(f"{where}.groups", f"there is no group {group}; {meant(str(group), of_group)}")
        if group not in fitting:
            lacking = ", ".join(name for name in names if name not in of_group[str(group)])
            raise ConfigError(f"{where}.order", f"group {group} has no row {lacking}")
    if not named:
        raise ConfigError(f"{where}.order", f"no group has all of the rows {', '.join(dict.fromkeys(names))}")
    small = fields.switch(content.get("small", False), f"{where}.small")
    remark = fields.text(content.get("remark", ""), f"{where}.remark")
    before = _before(content["before"], f"{where}.before") if "before" in content else None
    groups = tuple(str(each) for each in named)
    return Ordering(text, names, relations, column, tolerance, groups, small, remark, before)


def _before(given: object, where: str) -> float:
    """The tolerance of a former rule."""
    content = fields.mapping(given, where)
    fields.keys(content, ("tolerance",), (), f"{where}.")
    return _tolerance(content["tolerance"], where)


def _tolerance(given: object, where: str) -> float:
    tolerance = fields.number(given, f"{where}.tolerance")
    if tolerance < 0:
        raise ConfigError(f"{where}.tolerance", f"{tolerance} is impossible", "numbers from 0 up")
    return tolerance
