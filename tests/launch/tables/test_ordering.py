"""Orderings that must show in a table."""

from __future__ import annotations

import math

import pytest

from fl_ddp.errors import ConfigError
from launch.tables.ordering import Ordering, decide, parse_ordering


def judged(text: str, values: dict[str, float | None], tolerance: float = 0) -> tuple[str, str]:
    rows, relations = parse_ordering(text)
    return decide(Ordering(text, rows, relations, "column", tolerance, ("group",), False), values)


@pytest.mark.parametrize(
    ("text", "tolerance", "verdict"),
    [
        ("a > b > c", 0, "holds"),
        ("c < b < a", 0, "holds"),
        ("a > c > b", 0, "does not hold"),
        ("a > c > b", 1, "holds"),
        ("b ~ c", 0.5, "does not hold"),
        ("b ~ c", 1, "holds"),
        ("a > twin", 0, "does not hold"),
        ("a ~ twin", 0, "holds"),
        ("a > missing", 0, "not decided"),
        ("c > a > missing", 0, "does not hold"),
        ("never > a", 0, "holds"),
        ("never < a", 100, "does not hold"),
        ("never < nowhere", 0, "not decided"),
    ],
)
def test_orderings_are_judged(text: str, tolerance: float, verdict: str) -> None:
    values = {"a": 3.0, "twin": 3.0, "b": 2.0, "c": 1.0, "never": math.inf, "nowhere": math.inf, "missing": None}
    assert judged(text, values, tolerance)[0] == verdict


@pytest.mark.parametrize("text", ["a", "a >", "a >> b", "a > b c", "> a"])
def test_malformed_orderings_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="accepted"):
        parse_ordering(text)
