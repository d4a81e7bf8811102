"""Names as short as a plot has room for, which stay apart."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

_LEFT_OUT = "…"
_WORD = re.compile(r"[-_/,= ]+|[^-_/,= ]+")
_LEAST = 4
"""Letters that are worth an ellipsis."""


def shortened(names: Collection[str], most: int) -> dict[str, str]:
    """Each name in so many letters, or in as few more as keep two apart.

    Words that all have in common are left out first, then those of the long ones, then letters in the middle.
    """
    found = {name: name for name in names}
    for beyond in (-1, most):
        long = [name for name, short in found.items() if len(short) > beyond]
        cut = {**found, **dict(zip(long, _without_common([found[name] for name in long], most), strict=True))}
        if _apart(cut.values()):
            found = cut
    return dict(zip(found, _without_middle([*found.values()], most), strict=True))


def _without_common(names: Sequence[str], most: int) -> list[str]:
    """Without the longest words that follow each other in all names, until none has more letters or there are none."""
    found = list(names)
    while len(found) > 1 and max(map(len, found)) > most:
        ways = ([_without(run, name) for name in found] for run in _common_runs(found))
        shorter = next((way for way in ways if _apart(way) and not {*way} & {*found}), None)
        if shorter is None:
            break
        found = shorter
    return found


def _common_runs(names: Sequence[str]) -> list[list[str]]:
    """Words that follow each other in the shortest name, the longest ones first, whose letters all have."""
    words = _WORD.findall(min(names, key=len))
    runs = [words[first:end] for first in range(len(words)) for end in range(first + 1, len(words) + 1)]
    texts = {"".join(run): run for run in runs}
    common = [text for text in texts if len(text) >= _LEAST and all(text in name for name in names)]
    return [texts[text] for text in sorted(common, key=len, reverse=True) if _LEFT_OUT not in text]


def _without(run: Sequence[str], name: str) -> str:
    """A name without words of it; itself where it does not have them, or nothing else."""
    words = _WORD.findall(name)
    places = (first for first in range(len(words)) if words[first : first + len(run)] == run)
    if (first := next(places, None)) is None or len(run) == len(words):
        return name
    return "".join([*words[:first], _LEFT_OUT, *words[first + len(run) :]])


def _without_middle(names: Sequence[str], most: int) -> list[str]:
    """Of names that are longer the begin and the end, with as few letters more as keep them apart."""
    longest = max(map(len, names), default=0)
    for room in range(most - 1, longest):
        for end in sorted(range(room + 1), key=lambda end: abs(2 * end - room)):
            short = [_ends(name, room - end, end) for name in names]
            if _apart(short):
                return short
    return list(names)


def _ends(name: str, begin: int, end: int) -> str:
    return name if len(name) <= begin + end + 1 else f"{name[:begin]}{_LEFT_OUT}{name[len(name) - end :]}"


def _apart(names: Collection[str]) -> bool:
    return len(set(names)) == len(names)
