"""Orderings that must show in a table: written as `both > weighted > ewc ~ fedavg`, decided on means over seeds."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from fl_ddp.errors import ConfigError

Verdict = Literal["holds", "does not hold", "not decided"]


@dataclass(frozen=True)
class Ordering:
    """What must be larger than what.

    Attributes:
        text: as the table writes it.
        rows: names of the rows, as they follow each other.
        relations: <, > or ~ between each two of them.
        column: whose compared metric decides.
        tolerance: by how much, in the column's unit, a pair may be the wrong way round, or apart for ~.
        groups: where it must show.
        small: whether it must show in the scaled-down twins too.
    """

    text: str
    rows: tuple[str, ...]
    relations: tuple[str, ...]
    column: str
    tolerance: float
    groups: tuple[str, ...]
    small: bool


def parse_ordering(text: str, where: str = "order") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The rows of an ordering, and the relations between them.

    Args:
        text: the ordering.
        where: it stands, for messages.

    Raises:
        ConfigError: it is none.
    """
    rows, relations = re.split(r"\s*[<>~]\s*", text.strip()), re.findall(r"[<>~]", text)
    if len(rows) < 2 or not all(re.fullmatch(r"[\w.]+", row) for row in rows):
        raise ConfigError(where, f"{text!r} is no ordering", "names of rows with <, > or ~ between them")
    return tuple(rows), tuple(relations)


def decide(ordering: Ordering, values: Mapping[str, float | None]) -> tuple[Verdict, str]:
    """Whether an ordering shows.

    Args:
        ordering: what is expected.
        values: by row; infinite where a target was not reached, None where there is no number.

    Returns:
        verdict, and why: the pairs that are the wrong way round, or what is missing.
    """
    missing = [row for row in ordering.rows if values.get(row) is None]
    wrong, undecided = [], []
    for (a, b), relation in zip(pairwise(ordering.rows), ordering.relations, strict=True):
        x, y = values.get(a), values.get(b)
        if x is None or y is None:
            continue
        if math.isinf(x) and math.isinf(y):
            undecided.append(f"neither {a} nor {b} reaches the target")
        elif not _shows(relation, x, y, ordering.tolerance):
            wrong.append(f"{a} {x:.4g} against {b} {y:.4g}")
    if wrong:
        return "does not hold", ", ".join(wrong)
    if missing:
        return "not decided", f"no number of {', '.join(missing)}"
    return ("not decided", ", ".join(undecided)) if undecided else ("holds", "")


def _shows(relation: str, x: float, y: float, tolerance: float) -> bool:
    if relation == "~":
        return abs(x - y) <= tolerance
    ahead = x - y if relation == ">" else y - x
    return ahead >= -tolerance if tolerance else ahead > 0
