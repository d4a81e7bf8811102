"""The options of launch.reproduce."""

from __future__ import annotations

import pytest

from launch.executor import ExecutorOptions
from launch.input.words import split
from launch.slurm.options import SlurmOptions
from launch.tables.options import ReproduceOptions, read_seeds


@pytest.mark.parametrize(("text", "seeds"), [("0..2", (0, 1, 2)), ("0,3,5", (0, 3, 5)), ("7", (7,)), ("1,1", (1,))])
def test_seeds_are_a_range_or_a_list(text: str, seeds: tuple[int, ...]) -> None:
    assert read_seeds(text) == seeds


def test_options_of_a_run_are_handed_on() -> None:
    line = ["a/b", "--small", "--data.root", "there", "--row", "x", "--compile=false", "--row=y", "--data.download"]
    words = split(line, ReproduceOptions, ExecutorOptions, SlurmOptions)
    options = words.read(ReproduceOptions)
    assert (options.table, options.row, options.seeds_of_runs) == ("a/b", ("x", "y"), (0,))
    assert words.rest == ("--data.root=there", "--compile=false", "--data.download")
    assert ReproduceOptions("a/b").seeds_of_runs == (0, 1, 2)
