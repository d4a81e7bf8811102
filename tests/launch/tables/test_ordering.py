"""Orderings that must show in a table."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fl_ddp.errors import ConfigError
from launch.numbers.reading import Reading
from launch.tables.ordering import Decision, Ordering, Verdict, decide, formerly, parse_ordering

END = 61
MISSED = Reading(END, missed=True)


def ordering(text: str, tolerance: float = 0) -> Ordering:
    return Ordering(text, *parse_ordering(text), "column", tolerance, ("group",), False)


def judged(text: str, readings: dict[str, list[Reading]], tolerance: float = 0) -> Decision:
    return decide(ordering(text, tolerance), {row: dict(enumerate(values)) for row, values in readings.items()})


def of(*values: float | None) -> list[Reading]:
    return [MISSED if value is None else Reading(value) for value in values]


@pytest.mark.parametrize(
    ("text", "tolerance", "verdict"),
    [
        ("a > b > c", 0, "holds"),
        ("c < b < a", 0, "holds"),
        ("a > c > b", 0, "does not hold"),
        ("b ~ c", 0.5, "does not hold"),
        ("b ~ c", 1, "holds"),
        ("a > twin", 0, "does not hold"),
        ("a ~ twin", 0, "holds"),
        ("a > missing", 0, "not decided"),
        ("a > b > missing", 0, "not decided"),
        ("c > a > missing", 0, "does not hold"),
        ("never > a", 0, "holds"),
        ("never < a", 0, "does not hold"),
        ("never ~ a", 100, "does not hold"),
        ("never < nowhere", 0, "not decided"),
        ("never ~ nowhere", 0, "not decided"),
        ("never < nowhere < a", 0, "does not hold"),  # that of the first pair is unknown
        ("a < b < never < nowhere", 0, "does not hold"),
        ("b < a < never < nowhere", 0, "not decided"),
    ],
)
@pytest.mark.parametrize("seeds", [1, 3])
def test_orderings_of_seeds_that_agree(text: str, tolerance: float, verdict: str, seeds: int) -> None:
    values = {"a": 3.0, "twin": 3.0, "b": 2.0, "c": 1.0, "never": None, "nowhere": None}
    readings = {row: of(*[value] * seeds) for row, value in values.items()}
    assert judged(text, {**readings, "missing": []}, tolerance).verdict == verdict


@pytest.mark.parametrize(
    ("a", "b", "verdict", "showing"),
    [
        (of(5, 5, 5), of(1, 1, 1), "holds", 3),
        (of(5, 5, 1), of(1, 1, 2), "holds", 2),
        (of(9, 1, 1), of(1, 2, 2), "not decided", 1),  # the mean alone
        (of(2, 2, 1), of(1, 1, 9), "not decided", 2),  # the seeds alone
        (of(2, 1, 1), of(1, 2, 2), "does not hold", 1),
        (of(1, 1, 1), of(1, 1, 1), "does not hold", 0),
        (of(2, 1), of(1, 1), "not decided", 1),
        (of(2, 2, 2, 1), of(1, 1, 1, 1), "holds", 3),
        (of(2, 2, 1, 1), of(1, 1, 1, 1), "not decided", 2),
    ],
)
def test_a_verdict_needs_the_mean_and_two_thirds_of_the_seeds(
    a: list[Reading], b: list[Reading], verdict: str, showing: int
) -> None:
    for text in ("a > b", "b < a"):
        decision = judged(text, {"a": a, "b": b})
        assert (decision.verdict, len(decision.showing)) == (verdict, showing)


def test_seeds_are_paired() -> None:
    mine = {0: Reading(1), 1: Reading(12)}
    both = decide(ordering("a > b"), {"a": mine, "b": {1: Reading(11), 2: Reading(0)}})
    assert (both.verdict, both.seeds, both.showing) == ("holds", (1,), (1,))
    less = decide(ordering("a < b"), {"a": mine, "b": {1: Reading(13), 2: Reading(0)}})
    assert (less.verdict, less.seeds) == ("holds", (1,))  # though the mean over each row's own seeds says no
    apart = decide(ordering("a > b"), {"a": mine, "b": {7: Reading(0)}})
    assert (apart.verdict, apart.why) == ("not decided", "no seed has run in all rows")


def test_a_whole_chain_must_show_in_a_seed() -> None:
    rows = {"a": of(3, 3, 1), "b": of(2, 2, 2), "c": of(1, 2.5, 1)}
    assert judged("a > b", rows).verdict == judged("b > c", rows).verdict == "holds"
    assert judged("a > b > c", rows).showing == (0,) and judged("a > b > c", rows).verdict == "not decided"


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        (of(10, 20, None), of(30, 40, None), "holds"),
        (of(10, None, None), of(30, None, None), "not decided"),  # sooner on the mean, and in one seed of three
        (of(10, 20, 30), of(30, None, 40), "holds"),
        (of(None, 20, 20), of(30, 40, 40), "not decided"),  # sooner in two seeds, and the mean may be anything above 23
        (of(60, 70, 80), of(None, 10, 10), "not decided"),  # later in two seeds, but its mean may be the smaller one
        (of(60, 70, 80), of(20, 10, None), "not decided"),
        (of(None, 70, 80), of(20, 10, 30), "does not hold"),
        (of(None, 20, 20), of(10, 30, 30), "not decided"),  # sooner in two seeds, not on the mean
    ],
)
def test_a_seed_that_misses_the_target_is_later_than_all_that_reach_it(
    a: list[Reading], b: list[Reading], verdict: str
) -> None:
    assert judged("a < b", {"a": a, "b": b}).verdict == verdict


VALUES = st.lists(st.one_of(st.integers(1, END - 1), st.none()), min_size=3, max_size=3)


@given(VALUES, VALUES)
def test_an_ordering_and_its_opposite_never_both_hold(a: list[int | None], b: list[int | None]) -> None:
    verdicts = [judged(text, {"a": of(*a), "b": of(*b)}).verdict for text in ("a < b", "b < a")]
    if "holds" in verdicts:
        assert sorted(verdicts) == ["does not hold", "holds"]


@given(VALUES)
def test_a_method_that_does_nothing_is_ahead_of_nothing(values: list[int | None]) -> None:
    for text in ("a < b", "a > b"):
        assert judged(text, {"a": of(*values), "b": of(*values)}).verdict != "holds"


def test_steps_that_methods_which_do_the_same_could_show_are_named() -> None:
    rows = {"a": of(3, 5, 4), "b": of(2.9, 4.9, 3.9), "c": of(2, 2, 4), "d": of(1, 1, 1)}
    assert judged("a > b", rows).by_chance == ()  # always by a tenth
    # t of 1, 2 and 3 is 3.46: to one side 2.92 is due, to both 4.30
    assert judged("a > b", {"a": of(2, 4, 6), "b": of(1, 2, 3)}).by_chance == ()
    assert judged("a > b > c > d", rows).by_chance == ("b 3.9 against c 2.667", "c 2.667 against d 1")
    assert judged("c > d", {row: values[:1] for row, values in rows.items()}).by_chance == ()  # of one seed, unknown
    assert judged("a ~ c", rows, 3).by_chance == () and judged("d > c", rows).by_chance == ()
    none = "without the target"
    targets = {"a": of(10, 20, 12), "b": of(None, None, None)}
    assert judged("a < b", targets).by_chance == (f"a 14 against b {none}",)  # 1 of 8 tables has three that agree
    many = {row: (values * 2)[:5] for row, values in targets.items()}
    assert judged("a < b", many).by_chance == ()  # 1 of 32
    some = {"a": of(10, 20, 12, 30, 11, 20), "b": of(None, 40, 30, 40, 50, 10)}  # 7 of 64 have five that agree
    assert judged("a < b", some).by_chance == ("a 17.17 against b >= 38.5 (5 of 6 reach the target)",)


@settings(max_examples=5)
@given(st.integers(0, 2**32 - 1))
def test_methods_that_do_the_same_hold_for_more_than_chance_in_few_tables(seed: int) -> None:
    """Of 400 tables of three seeds 20 are due, and 40 where 20 are is less than once in 10,000 times."""
    both = np.random.default_rng(seed).normal(size=(400, 2, 3))
    found = [judged("a > b", {"a": of(*a), "b": of(*b)}) for a, b in both]
    holding = [each for each in found if each.verdict == "holds"]
    assert len(holding) > 100 and sum(not each.by_chance for each in holding) <= 40


@pytest.mark.parametrize(
    ("text", "tolerance", "verdict"),
    [
        ("b > a", 2, "holds"),
        ("b > a", 1.5, "holds"),  # exactly the tolerance
        ("b > a", 1, "does not hold"),
        ("a < b", 1.5, "holds"),
        ("a < b", 1, "does not hold"),
        ("a > b", 1, "holds"),
        ("c > b > a", 2, "holds"),
        ("c > b > a", 1, "does not hold"),
        ("a ~ b", 1.5, "holds"),
        ("a ~ b", 1, "does not hold"),
        ("a > twin", 0, "does not hold"),
        ("a > twin", 1, "holds"),
        ("a < once", 100, "holds"),
        ("once < a", 100, "does not hold"),  # one seed that misses makes the mean infinite
        ("once < never", 100, "not decided"),
        ("once < never < a", 100, "does not hold"),
        ("a > missing", 1, "not decided"),
    ],
)
def test_the_former_rule_judges_the_means_alone_with_a_tolerance(text: str, tolerance: float, verdict: Verdict) -> None:
    values = {
        "a": of(3, 4),
        "twin": of(3, 4),
        "b": of(1, 3),
        "c": of(1, 1),
        "once": of(1, None),
        "never": of(None, None),
    }
    readings = {row: dict(enumerate(each)) for row, each in values.items()}
    assert formerly(replace(ordering(text), tolerance_before=tolerance), readings, (0, 1)) == verdict


def test_the_former_rule_is_of_the_seeds_that_decide_now_and_only_where_there_was_one() -> None:
    readings = {"a": {0: Reading(1), 1: Reading(9)}, "b": {0: Reading(3), 2: Reading(0)}}
    before = replace(ordering("a > b"), tolerance_before=1)
    assert formerly(before, readings, (0,)) == "does not hold"
    assert formerly(before, readings, ()) == "not decided"
    assert formerly(ordering("a > b"), readings, (0,)) is None


def test_reasons_have_the_numbers() -> None:
    assert judged("a > b", {"a": of(1, 1), "b": of(2, 3)}).why == "a 1 against b 2.5"
    assert judged("a < b", {"a": of(None), "b": of(2)}).why == "a without the target against b 2"
    assert judged("a < b", {"a": of(None), "b": of(None)}).why == "neither a nor b reaches the target"
    assert re.match("on the mean", judged("a > b", {"a": of(9, 1, 1), "b": of(1, 2, 2)}).why)


@pytest.mark.parametrize("text", ["a", "a >", "a >> b", "a > b c", "> a"])
def test_malformed_orderings_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="accepted"):
        parse_ordering(text)


def test_what_a_missed_target_may_take_beyond_the_tolerance_is_left_open() -> None:
    rows = {"a": of(None, END - 1, END - 1), "b": of(*[END - 1] * 3)}
    assert judged("a ~ b", rows, 1).verdict == judged("b ~ a", rows, 1).verdict == "not decided"


def test_infinities_of_both_signs_show_nothing_on_the_mean() -> None:
    found = judged("b > a", {"a": of(math.inf, -math.inf, -5.0), "b": of(1.0, 2.0, 3.0)})
    assert (found.verdict, found.showing, found.why) == ("not decided", (1, 2), "on the mean b 2 against a nan")
