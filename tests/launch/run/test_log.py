"""What launchers tell of a run from its log."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from launch.run.log import killed, last_words


def test_last_words_are_of_the_last_command_alone(tmp_path: Path) -> None:
    log = tmp_path / "run.log"
    assert last_words(log, 0) == "it printed nothing"
    log.write_text("Traceback (most recent call last):\n  in x\nImportError: no torch\n\n")
    size = log.stat().st_size
    assert (last_words(log, 0), last_words(log, size)) == ("ImportError: no torch", "it printed nothing")
    with log.open("a") as file:
        file.write("Segmentation fault\n")
    assert last_words(log, size) == "Segmentation fault"


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (-signal.SIGKILL, "killed by SIGKILL; out of memory?"),
        (-signal.SIGSEGV, "killed by SIGSEGV"),
        (-signal.SIGTERM, "killed by SIGTERM"),
        (-(signal.SIGRTMIN + 1), f"killed by signal {signal.SIGRTMIN + 1}"),
    ],
)
def test_only_who_is_killed_may_have_taken_too_much_memory(code: int, told: str) -> None:
    assert killed(code) == told
