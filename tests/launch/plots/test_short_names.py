"""Names as short as a plot has room for: what tells them apart is left, and no two look alike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launch.plots.short_names import shortened

ROWS = [f"cifar10-dirichlet-{method}-with-a-long-name-of-its-own-lr0.1" for method in ("FedAvg", "FedProx", "FedDyn")]


def test_short_names_stay_as_they_are() -> None:
    assert shortened(["FedAvg", "FedProx", ""], 8) == {"FedAvg": "FedAvg", "FedProx": "FedProx", "": ""}
    assert shortened([], 8) == {}


def test_words_that_all_have_in_common_are_left_out_whole() -> None:
    assert [*shortened(ROWS, 30).values()] == [
        "cifar10-dirichlet-FedAvg…",
        "cifar10-dirichlet-FedProx…",
        "cifar10-dirichlet-FedDyn…",
    ]
    assert [*shortened(ROWS, 20).values()] == ["…FedAvg…", "…FedProx…", "…FedDyn…"]


def test_a_name_of_its_own_is_left_and_the_long_ones_lose_what_they_have_in_common() -> None:
    assert [*shortened([*ROWS, "central"], 20).values()] == ["…FedAvg…", "…FedProx…", "…FedDyn…", "central"]


def test_what_has_nothing_in_common_loses_its_middle() -> None:
    assert shortened(["abcdefghij" * 4, "central"], 11) == {"abcdefghij" * 4: "abcde…fghij", "central": "central"}


def test_no_name_is_left_without_a_word_of_its_own() -> None:
    names = ["cifar10-dirichlet-alpha", "cifar10-dirichlet-alpha-and-FedProx-behind-it"]
    assert [*shortened(names, 30).values()] == ["…alpha", "…alpha-and-FedProx-behind-it"]


def test_a_name_with_an_ellipsis_stays_apart_from_those_that_get_one() -> None:
    names = ["…b", "alpha-beta-b", "alpha-beta-c"]
    assert len({*shortened(names, 8).values()}) == len(names)


@pytest.mark.parametrize("alphabet", ["ab", "ab-"])
def test_names_stay_apart_with_few_letters_more(alphabet: str) -> None:
    names = [f"{'a' * 40}{middle}{'b' * 40}" for middle in (*alphabet, "cd")]
    assert len({*shortened(names, 12).values()}) == len(names)


@given(st.lists(st.text("ab-", max_size=24), unique=True, max_size=8), st.integers(4, 12))
def test_no_two_names_look_alike_and_none_becomes_longer(names: list[str], most: int) -> None:
    short = shortened(names, most)
    assert [*short] == names and len({*short.values()}) == len(names)
    assert all(len(short[name]) <= max(len(name), 1) for name in names)
