"""What the log of a run says: whose lines they are, and why the run failed."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path

OURS = "fl_ddp: "
ERROR = f"{OURS}error: "
_TRACEBACK = "Traceback (most recent call last):"


def log_beside(folder: Path) -> Path:
    """The file for what a run prints; beside its folder, which does not exist before the run has begun."""
    return folder.with_name(f"{folder.name}.log")


def heading(job_id: str) -> str:
    """How a log's lines of one attempt of a job begin."""
    return f"{OURS}job {job_id}, "


def killed(code: int) -> str:
    """What to say of a process that a signal ended.

    Args:
        code: its exit code as subprocess has it: the signal's number, negative.
    """
    return f"killed by {signal.Signals(-code).name}; out of memory?"


def words_of_job(job_id: str, logs: Iterable[Path]) -> str | None:
    """The line that says why a job's run failed, if it said so.

    Args:
        job_id: of the job; what earlier jobs, or earlier attempts of this one, wrote into a log does not count.
        logs: of the run and of the job's tasks; the first that says something counts.
    """
    for log in logs:
        _, header, attempt = _text(log).rpartition(heading(job_id))
        if header and (words := _error_of(_lines(attempt))):
            return words
    return None


def last_words(log: Path, place: int) -> str:
    """The line of a log that says why its command failed.

    Args:
        log: to which several commands may have written.
        place: size of the log when the last of them began.
    """
    lines = _lines(_text(log, place))
    return _error_of(lines) or (lines or ["it printed nothing"])[-1]


def reported_error(log: Path) -> str | None:
    """Why the last run that wrote into a log failed, if it said so itself, and nothing after it."""
    said = [line for line in _lines(_text(log)) if line.startswith(OURS)]
    return said[-1].removeprefix(ERROR) if said and said[-1].startswith(ERROR) else None


def _error_of(lines: list[str]) -> str | None:
    """The last error that is told; else the end of a traceback, of a process that could not tell any."""
    said = [line for line in lines if line.startswith(ERROR)]
    if said:
        return said[-1].removeprefix(ERROR)
    return lines[-1] if _TRACEBACK in lines else None


def _text(log: Path, place: int = 0) -> str:
    if not log.is_file():
        return ""
    with log.open("rb") as file:
        file.seek(place)
        return file.read().decode(errors="replace")


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]
