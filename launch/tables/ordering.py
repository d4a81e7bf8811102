"""Orderings that must show in a table: written as `both > weighted > ewc ~ fedavg`, decided by seeds and their mean."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from fl_ddp.errors import ConfigError
from launch.numbers.reading import Reading, reached, values_of
from launch.numbers.spread import mean, spread

Verdict = Literal["holds", "does not hold", "not decided"]
BySeed = Mapping[int, Reading]

_CHANCE = 0.05
"""How often a step of methods that do the same may go for more than chance."""


@dataclass(frozen=True)
class Ordering:
    """What must be larger than what.

    Attributes:
        text: as the table writes it.
        rows: names of the rows, as they follow each other.
        relations: <, > or ~ between each two of them; < and > are strict.
        column: whose compared metric decides.
        tolerance: by how much, in the column's unit, a pair with ~ may be apart.
        groups: where it must show.
        small: whether it must show in the scaled-down twins too.
        remark: what a reader must know of it.
        tolerance_before: of the rule that it replaces; None if there was none.
    """

    text: str
    rows: tuple[str, ...]
    relations: tuple[str, ...]
    column: str
    tolerance: float
    groups: tuple[str, ...]
    small: bool
    remark: str = ""
    tolerance_before: float | None = None


@dataclass(frozen=True)
class Decision:
    """Whether an ordering shows.

    Attributes:
        verdict: holds if it shows on the mean and in two thirds of the seeds; does not hold if in neither.
        seeds: that all of its rows have.
        showing: those of them in which it shows.
        why: it does not hold, or is not decided.
        by_chance: steps, as text, of one that holds which two methods that do the same could show as well.
    """

    verdict: Verdict
    seeds: tuple[int, ...]
    showing: tuple[int, ...]
    why: str = ""
    by_chance: tuple[str, ...] = ()


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


def decide(ordering: Ordering, readings: Mapping[str, BySeed]) -> Decision:
    """Judge an ordering: in each seed that all rows have, then on the means over these seeds.

    Args:
        ordering: what is expected.
        readings: by row and seed; of a row without numbers there may be none. A missed target is later than all that
            are reached, whatever the tolerance, and of two that are missed none is first. The mean over seeds of which
            one misses is the least that it can be, so it shows nothing where it is not the larger one.
    """
    known = [row for row in ordering.rows if readings.get(row)]
    seeds = tuple(sorted(set.intersection(*(set(readings[row]) for row in known)) if known else ()))
    pairs = _pairs(ordering, known)
    if not seeds or not pairs:
        missing = [row for row in ordering.rows if row not in known]
        return Decision("not decided", (), (), _without(missing) or "no seed has run in all rows")
    of = {row: [readings[row][seed] for seed in seeds] for row in known}
    shows = {(a, b): _shows_on_mean(sign, of[a], of[b], ordering.tolerance) for a, b, sign in pairs}
    showing = tuple(
        seed
        for seed in seeds
        if all(_shows(sign, readings[a][seed], readings[b][seed], ordering.tolerance) for a, b, sign in pairs)
    )
    wrong = [pair for pair in shows if shows[pair] is False]
    whys = ", ".join(_why(a, b, of) for a, b in shows if not shows[a, b])
    enough = 3 * len(showing) >= 2 * len(seeds)
    if wrong and all(not reached(of[a] + of[b]) for a, b in wrong):
        return Decision("not decided", seeds, showing, whys)
    if wrong and not enough:
        return Decision("does not hold", seeds, showing, whys)
    if whys or not enough:
        return Decision("not decided", seeds, showing, f"on the mean {whys or 'it shows'}")
    if missing := [row for row in ordering.rows if row not in known]:
        return Decision("not decided", seeds, showing, _without(missing))
    unsure = (_why(a, b, of) for a, b, sign in pairs if sign != "~" and _may_be_chance(sign, of[a], of[b]))
    return Decision("holds", seeds, showing, by_chance=tuple(unsure))


def formerly(ordering: Ordering, readings: Mapping[str, BySeed], seeds: Collection[int]) -> Verdict | None:
    """Judge by the rule that an ordering replaces, which let a pair with > or < be a little the wrong way round.

    Args:
        ordering: what is expected.
        readings: by row and seed.
        seeds: whose means alone decided; a mean missed its target if one of them did.

    Returns:
        None if there was no such rule.
    """
    if ordering.tolerance_before is None:
        return None
    known = [row for row in ordering.rows if readings.get(row)] if seeds else []
    means = {row: _mean_or_infinity([readings[row][seed] for seed in seeds]) for row in known}
    pairs = [(a, b, sign) for a, b, sign in _pairs(ordering, known) if math.isfinite(min(means[a], means[b]))]
    if not all(_tolerated(sign, means[a], means[b], ordering.tolerance_before) for a, b, sign in pairs):
        return "does not hold"
    return "holds" if len(pairs) == len(ordering.relations) else "not decided"


def _pairs(ordering: Ordering, known: Collection[str]) -> list[tuple[str, str, str]]:
    """Neighbouring rows with numbers, and their relation."""
    neighbours = zip(pairwise(ordering.rows), ordering.relations, strict=True)
    return [(a, b, relation) for (a, b), relation in neighbours if a in known and b in known]


def _mean_or_infinity(readings: list[Reading]) -> float:
    return math.inf if any(each.missed for each in readings) else mean([each.value for each in readings]) or 0.0


def _tolerated(relation: str, a: float, b: float, tolerance: float) -> bool:
    if relation == "~":
        return abs(a - b) <= tolerance
    ahead = a - b if relation == ">" else b - a
    return ahead >= -tolerance if tolerance else ahead > 0


def _mean(readings: list[Reading]) -> Reading:
    """Of some seeds; missed only if all of them missed, and nan where infinite numbers have no mean."""
    middle = mean(values_of(readings))
    return Reading(math.nan if middle is None else middle, not reached(readings))


def _shows_on_mean(relation: str, a: list[Reading], b: list[Reading], tolerance: float) -> bool | None:
    """Whether a pair shows; None where a target missed in a seed that the other one reaches it in leaves that open."""
    first, second = _mean(a), _mean(b)
    slack = tolerance if relation == "~" else 0
    a_alone, b_alone = ([x.missed and not y.missed for x, y in zip(*pair, strict=True)] for pair in ((a, b), (b, a)))
    may_be_more = (any(a_alone) and first.value <= second.value + slack) or (
        any(b_alone) and second.value <= first.value + slack
    )
    if may_be_more and not (first.missed or second.missed):
        return None
    return _shows(relation, first, second, tolerance)


def _shows(relation: str, a: Reading, b: Reading, tolerance: float) -> bool:
    if a.missed and b.missed:
        return False
    if relation == "~":
        return a.missed == b.missed and abs(a.value - b.value) <= tolerance
    first, second = (a, b) if relation == "<" else (b, a)
    return not first.missed and (second.missed or first.value < second.value)


def _may_be_chance(relation: str, a: list[Reading], b: list[Reading]) -> bool:
    """Whether two that do the same would show < or > as clearly in more than 1 of 20 tables; nothing of one seed.

    By a one-sided paired t-test; where a target was missed, by how many seeds agree, a sign test.
    """
    number = len(a)
    if number == 1:
        return False
    if reached(a + b) < 2 * number:
        agreeing = sum(_shows(relation, x, y, 0) for x, y in zip(a, b, strict=True))
        return 0.5**number * sum(math.comb(number, k) for k in range(agreeing, number + 1)) > _CHANCE
    differences = [x.value - y.value for x, y in zip(a, b, strict=True)]
    deviation = spread(differences)
    if not deviation:
        return False
    from scipy import stats  # takes a second that tables of one seed can spare

    least = float(stats.t.ppf(1 - _CHANCE, number - 1))
    return abs(mean(differences) or 0.0) <= least * deviation / math.sqrt(number)


def _why(a: str, b: str, of: Mapping[str, list[Reading]]) -> str:
    if not reached(of[a] + of[b]):
        return f"neither {a} nor {b} reaches the target"
    return " against ".join(f"{row} {_shown(of[row])}" for row in (a, b))


def _shown(readings: list[Reading]) -> str:
    few, value = reached(readings), _mean(readings).value
    if not few:
        return "without the target"
    return f"{value:.4g}" if few == len(readings) else f">= {value:.4g} ({few} of {len(readings)} reach the target)"


def _without(missing: list[str]) -> str:
    return f"no number of {', '.join(missing)}" if missing else ""
