"""Settings that nobody thought of: the same bits on any ranks and after a stop, and numbers that agree."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from drawn_settings import ALWAYS, LEFT_OUT, Settings, drawn, files, option_names, values
from launching import PATIENCE, SUPPORT, checkpoints, launched, options, simulated
from left_by_runs import contradictions, differences

from fl_ddp.errors import ConfigError, DivergedError

FIRST, COUNT = map(int, os.environ.get("FL_DDP_DRAWS", "0:32").split(":"))
AT_ONCE = 32
"""Runs of one torchrun."""
ESSENTIAL = frozenset({*ALWAYS, "data", "method", "model", "loss", "name", "seed"})

Runs = Mapping[str, Settings]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("drawn")
    files(made)
    return made


@pytest.fixture(scope="module")
def runs(folder: Path) -> Runs:
    """Draws by their names that have been run, on one rank, in the folder alone."""
    found = {}
    for number in range(FIRST, FIRST + COUNT):
        if settings := run_of(drawn(number, folder), folder / "alone"):
            found[str(settings["name"])] = settings
    return found


def run_of(settings: dict[str, object], out: Path) -> dict[str, object] | None:
    """Make a run, without the options that it is refused for; those that could be run, or None.

    A refusal must name one that was given.
    """
    while True:
        try:
            simulated(settings, out)
            return settings
        except DivergedError:
            return None
        except ConfigError as error:
            text = str(error)
            named = [key for key in settings if key in text.replace("-", " ").replace(":", " ").split()]
            assert named, f"{text}: names nothing of {' '.join(options(settings))}"
            if not (others := set(named) - ESSENTIAL):
                return None
            settings = {key: value for key, value in settings.items() if key not in others}


def on_ranks(settings: Sequence[Settings], ranks: int, folder: Path) -> str:
    """Make runs under one torchrun; what it wrote to stderr."""
    said = ""
    for begin in range(0, len(settings), AT_ONCE):
        listed = folder / f"{ranks}_ranks_{begin}.json"
        listed.write_text(json.dumps(settings[begin : begin + AT_ONCE]))
        with launched([str(SUPPORT / "several_runs.py"), str(listed)], ranks, folder) as launch:
            said += launch.ended(PATIENCE).err
    return said


def unlike(runs: Runs, alone: Path, together: Path, said: str) -> str:
    """What differs, below each run's command line."""
    found: list[str] = []
    for name, settings in runs.items():
        if not (together / name / "summary.json").exists():
            return "\n".join([*found, " ".join(options(settings)), f"did not end: {said[-6000:]}"])
        if gaps := differences(alone / name, together / name):
            found += [" ".join(options(settings)), *gaps]
    return "\n".join(found)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [2, 3])
def test_bits_do_not_depend_on_ranks(runs: Runs, folder: Path, ranks: int) -> None:
    together = folder / f"on_{ranks}"
    said = on_ranks([{**settings, "out": str(together)} for settings in runs.values()], ranks, folder)
    assert unlike(runs, folder / "alone", together, said) == ""


@pytest.mark.slow
def test_bits_do_not_depend_on_a_stop_after_which_ranks_are_others(runs: Runs, folder: Path) -> None:
    stopped = folder / "stopped"
    for name in runs:
        shutil.copytree(folder / "alone" / name, stopped / name)
        for each in checkpoints(stopped / name)[1:]:
            shutil.rmtree(stopped / name / "checkpoints" / each)
        (stopped / name / "summary.json").unlink()
    said = on_ranks([{"resume": str(stopped / name)} for name in runs], 2, folder)
    assert unlike(runs, folder / "alone", stopped, said) == ""


@pytest.mark.slow
def test_no_run_contradicts_itself(runs: Runs, folder: Path) -> None:
    found = {" ".join(options(settings)): contradictions(folder / "alone" / name) for name, settings in runs.items()}
    assert {line: lines for line, lines in found.items() if lines} == {}


@pytest.mark.slow
def test_most_draws_can_be_run(runs: Runs) -> None:
    assert len(runs) >= COUNT / 2


def test_all_options_are_drawn_or_left_out_by_name() -> None:
    assert [key for key, hint in option_names() if key not in LEFT_OUT and not values(key, hint)] == []
