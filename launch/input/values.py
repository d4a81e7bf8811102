"""Lists of values as options of a sweep write them: 0.1,1,10 or 0..4 or [64,32],[128] or 'a,b',c."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from fl_ddp.errors import ConfigError

MOST = 10_000
"""Values of one list, and points of one sweep."""

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)")


def read_values(text: str, where: str) -> tuple[str, ...]:
    """The values of a list, each as the command line writes it.

    Args:
        text: values with commas between them; a..b is all whole numbers from a to b, what stands in quotes or brackets
            is one value.
        where: what messages begin with: the option and what was given.

    Raises:
        ConfigError: there are none, or they are malformed, too many, or not all different.
    """
    values = tuple(value for item in comma_parts(text, where) for value in _values(item.strip(), where))
    if len(values) > MOST:
        raise ConfigError(where, f"these are {len(values)} values", f"{MOST} at most")
    value, times = Counter(values).most_common(1)[0]
    if times > 1:
        raise ConfigError(where, f"{value} stands there {times} times")
    return values


def comma_parts(text: str, where: str) -> list[str]:
    """The parts between commas that stand in no quotes and no brackets.

    Raises:
        ConfigError: a quote or bracket is left open.
    """
    parts = [""]
    open_now: list[str] = []
    for sign in text:
        if sign == "," and not open_now:
            parts.append("")
            continue
        parts[-1] += sign
        in_quotes = open_now and open_now[-1] in "'\""
        if open_now and sign == open_now[-1]:
            open_now.pop()
        elif not in_quotes and (sign in _CLOSING or sign in "'\""):
            open_now.append(_CLOSING.get(sign, sign))
        elif not in_quotes and sign in _CLOSING.values():
            raise ConfigError(where, f"{sign} closes nothing")
    if open_now:
        raise ConfigError(where, f"{open_now[-1]} is missing")
    return parts


def _values(item: str, where: str) -> Iterable[str]:
    if not item:
        raise ConfigError(where, "a value is missing", "values with commas between them, or 0..4")
    if item[0] in "'\"" and item.find(item[0], 1) == len(item) - 1:
        return [item[1:-1]]
    if match := _RANGE.fullmatch(item):
        first, last = int(match[1]), int(match[2])
        if first > last:
            raise ConfigError(where, f"{item} is an empty range", "a..b with a <= b")
        if last - first >= MOST:
            raise ConfigError(where, f"{item} are {last - first + 1} values", f"{MOST} at most")
        return map(str, range(first, last + 1))
    if ".." in item and "/" not in item:
        raise ConfigError(where, f"{item} is no range", "whole numbers a..b, or the text in quotes")
    return [item]
