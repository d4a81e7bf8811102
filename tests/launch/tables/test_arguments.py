"""The command line of launch.reproduce."""

from __future__ import annotations

import pytest

from launch.tables.arguments import read_arguments, read_seeds


@pytest.mark.parametrize(("text", "seeds"), [("0..2", (0, 1, 2)), ("0,3,5", (0, 3, 5)), ("7", (7,)), ("1,1", (1,))])
def test_seeds_are_a_range_or_a_list(text: str, seeds: tuple[int, ...]) -> None:
    assert read_seeds(text) == seeds


def test_options_of_a_run_are_handed_on() -> None:
    words = ["a/b", "--small", "--data.root", "there", "--row", "x", "--compile=false", "--row=y", "--data.download"]
    arguments = read_arguments(words)
    assert (arguments.table, arguments.rows, arguments.seeds) == ("a/b", ("x", "y"), (0,))
    assert arguments.extra == ("--data.root=there", "--compile=false", "--data.download")
