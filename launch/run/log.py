"""The log of a run, beside its folder: words for people, which decide nothing."""

from __future__ import annotations

import signal
from pathlib import Path


def log_beside(folder: Path) -> Path:
    """The file for what a run prints; beside its folder, which does not exist before the run has begun."""
    return folder.with_name(f"{folder.name}.log")


def killed(code: int) -> str:
    """What to say of a process that a signal ended.

    Args:
        code: its exit code as subprocess has it: the signal's number, negative.
    """
    if code == -signal.SIGKILL:
        return "killed by SIGKILL; out of memory?"
    names = {each.value: each.name for each in signal.Signals}  # of real-time signals the first and the last
    return f"killed by {names.get(-code, f'signal {-code}')}"


def last_words(log: Path, place: int) -> str:
    """The last line that a command printed which could not say why it failed.

    Args:
        log: to which several commands may have written.
        place: size of the log when the last of them began.
    """
    if log.is_file():
        with log.open("rb") as file:
            file.seek(place)
            lines = [line.strip() for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1]
    return "it printed nothing"
