"""Numbers that have one reading: to YAML 010 is 8 and 1:30 is 90, to most people 10 and no number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_BASE_EIGHT = re.compile(r"[-+]?0[0-7_]+")
_BASE_SIXTY = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?")
_BETWEEN = re.compile(r"[\s,\[\]{}'\"]+")

ACCEPTED = "numbers without leading zeros and colons"


def unclear(value: object) -> str | None:
    """What is written in a number, or in lists and mappings of them, that YAML reads otherwise; None if nothing is."""
    return next((part for text in _texts(value) for part in _BETWEEN.split(text) if _has_two_readings(part)), None)


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from _texts(each)


def _has_two_readings(part: str) -> bool:
    if _BASE_EIGHT.fullmatch(part):
        digits = part.replace("_", "")
        return int(digits, 8) != int(digits)
    return _BASE_SIXTY.fullmatch(part) is not None
