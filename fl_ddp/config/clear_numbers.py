"""Numbers that have one reading: to YAML 010 is 8 and 1:30 is 90, to most people 10 and no number."""

from __future__ import annotations

import re

_BASE_EIGHT = r"[-+]?0[0-7_]*[0-7][0-7_]*"
_BASE_SIXTY = r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"
_UNCLEAR = re.compile(rf"{_BASE_EIGHT}|{_BASE_SIXTY}")

ACCEPTED = "numbers without leading zeros and colons, texts in quotes"


def unclear(text: str) -> str | None:
    """What is written in a YAML number, or a list of them, that has another reading; None if nothing is."""
    parts = re.split(r"[\s,\[\]]+", text)
    return next((part for part in parts if _UNCLEAR.fullmatch(part)), None)
