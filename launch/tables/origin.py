"""Where a table's numbers come from: the command, and what its runs were made with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain

from fl_ddp.host.checkout import commit
from launch.tables.comparison import Comparison, RunsBySeed

Environment = Mapping[str, object]

_NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class RunsAlike:
    """Runs that were made with the same versions on the same hardware.

    Attributes:
        environment: versions, commit and hardware; None of runs that recorded none.
        dates: when the first and the last of them ended; None where none says so.
        rows: their seeds by full name of the row.
    """

    environment: Environment | None
    dates: tuple[str, str] | None
    rows: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class ResultsOrigin:
    """What made a file of results; None stands for what an older file does not record.

    Attributes:
        command: of the user.
        date: of the file.
        commit: of the code that wrote it.
        runs: that it was read off.
    """

    command: str
    date: str | None
    commit: str | None
    runs: tuple[RunsAlike, ...]


def origin_now(command: str, comparison: Comparison, runs: Mapping[str, RunsBySeed]) -> ResultsOrigin:
    """The origin of what is written by this process.

    Args:
        command: of the user.
        comparison: what was read off the runs.
        runs: by full name of the row and seed; those without a number are left out.
    """
    rows = {filled.row.full_name: filled.read for filled in comparison.rows}
    read = [(row, seed, runs[row][seed].summary) for row, seeds in rows.items() for seed in seeds]
    return ResultsOrigin(command, datetime.now(UTC).isoformat(timespec="seconds"), commit(), _runs_alike(read))


def origin_lines(origin: ResultsOrigin) -> list[str]:
    """Command, date and commit, then a line for all runs that were made alike; Markdown."""
    lines = [made_by({"command": origin.command, "date": origin.date, "commit": origin.commit})]
    for alike in origin.runs:
        number = sum(len(seeds) for seeds in alike.rows.values())
        named = f" of {', '.join(alike.rows)}" if len(origin.runs) > 1 else ""
        seeds = ", ".join(str(seed) for seed in sorted(set(chain.from_iterable(alike.rows.values()))))
        days = list(dict.fromkeys(date[:10] for date in alike.dates or ()))
        lines.append(
            f"{number} run{'s' * (number > 1)}{named}, seeds {seeds}, {' to '.join(days) or f'date {_NOT_RECORDED}'}, "
            f"{_commit_of(alike.environment or {})}: {made_with(alike.environment)}"
        )
    return lines


def made_by(recorded: Environment) -> str:
    """Command, date and commit in one line of Markdown, with what is not recorded."""
    date = recorded.get("date")
    when = str(date)[:10] if date else f"date {_NOT_RECORDED}"
    return f"`{recorded.get('command')}`, {when}, {_commit_of(recorded)}"


def made_with(environment: Environment | None) -> str:
    """Versions and machine in one line of Markdown."""
    if environment is None:
        return f"versions and machine {_NOT_RECORDED}"
    versions = [f"{name} {environment[name]}" for name in ("python", "torch") if name in environment]
    return ", ".join([*versions, machine(environment)])


def machine(environment: Environment) -> str:
    """Processor, cores and GPUs in a few words."""
    gpus = environment.get("gpus")
    names = [str(name) for name in gpus] if isinstance(gpus, list) else []
    cores = environment.get("cores")
    processor = [str(environment.get("cpu") or f"processor {_NOT_RECORDED}"), *([f"{cores} cores"] if cores else [])]
    return ", ".join([*processor, *(f"{names.count(name)} x {name}" for name in dict.fromkeys(names))])


def _commit_of(recorded: Environment) -> str:
    code = recorded.get("commit")
    return f"commit {f'`{code}`' if code else _NOT_RECORDED}"


def _runs_alike(read: Iterable[tuple[str, int, Mapping[str, object]]]) -> tuple[RunsAlike, ...]:
    """Runs with equal environments together, in the order in which they come up.

    Args:
        read: row, seed and summary of each run.
    """
    runs: list[RunsAlike] = []
    for row, seed, summary in read:
        recorded = summary.get("environment")
        environment, dates = None, None
        if isinstance(recorded, Mapping):
            environment = {str(key): value for key, value in recorded.items() if key not in ("command", "date")}
            date = recorded.get("date")
            dates = (str(date), str(date)) if date else None
        known = next((i for i, alike in enumerate(runs) if alike.environment == environment), None)
        if known is None:
            runs.append(RunsAlike(environment, dates, {row: (seed,)}))
        else:
            runs[known] = _with(runs[known], row, seed, dates)
    return tuple(runs)


def _with(alike: RunsAlike, row: str, seed: int, dates: tuple[str, str] | None) -> RunsAlike:
    known = (*(alike.dates or ()), *(dates or ()))
    rows = {**alike.rows, row: (*alike.rows.get(row, ()), seed)}
    return RunsAlike(alike.environment, (min(known), max(known)) if known else None, rows)
