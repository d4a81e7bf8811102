"""The content of a YAML file, checked piece by piece; messages begin with the place: file and key."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping

from fl_ddp.config.options import suggestion
from fl_ddp.errors import ConfigError


def mapping(value: object, where: str) -> dict[str, object]:
    """A mapping with texts as keys."""
    if not isinstance(value, Mapping):
        raise ConfigError(where, f"{_shown(value)} is not a mapping", "lines such as key: value")
    return {str(key): each for key, each in value.items()}


def listing(value: object, where: str) -> list[object]:
    """A list."""
    if not isinstance(value, list):
        raise ConfigError(where, f"{_shown(value)} is not a list", "lines that begin with -")
    return value


def text(value: object, where: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ConfigError(where, f"{_shown(value)} is not a text")
    return value


def number(value: object, where: str) -> float:
    """A finite number."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ConfigError(where, f"{_shown(value)} is not a number")
    return float(value)


def switch(value: object, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ConfigError(where, f"{_shown(value)} is unknown", "true or false")
    return value


def name(value: str, where: str) -> None:
    """Check a name that stands in orderings and in the names of folders."""
    if not re.fullmatch(r"[A-Za-z0-9_.]+", value):
        raise ConfigError(where, f"{value!r} is no name", "letters, digits, _ and .")


def keys(content: Mapping[str, object], required: Collection[str], optional: Collection[str], where: str) -> None:
    """Check that a mapping has the keys it must have, and no others than it may have.

    Args:
        content: the mapping.
        required: keys it must have.
        optional: keys it may have.
        where: the place, such as "a.table.yaml: groups.", to which the key is added.
    """
    known = (*required, *optional)
    for key in content:
        if key not in known:
            near = suggestion(key, known)
            raise ConfigError(
                f"{where}{key}",
                f"unknown key; did you mean {near}?" if near else "unknown key",
                "" if near else ", ".join(known),
            )
    for key in required:
        if key not in content:
            raise ConfigError(f"{where}{key}", "is missing")


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)
