"""Which clients take part in which tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_ddp.errors import ConfigError, one_line
from fl_ddp.protocol import Indices
from fl_ddp.reading.homes import users_path
from fl_ddp.streams.stream import Stream

Enrolment = npt.NDArray[np.bool_]
"""[clients, tasks] whether a client may take part in a task's rounds."""
WHERE = "--stream.enrolment"
NAMES = ("all", "decreasing", "increasing", "scattered", "random")
_ACCEPTED = f"{', '.join(NAMES)}, or a CSV file of a row a client and a column a task, entries 0 or 1"


def enrolment(stream: Stream, num_clients: int, rng: np.random.Generator) -> Enrolment:
    """The clients of each task [clients, tasks].

    Args:
        stream: says which.
        num_clients: of the run.
        rng: of random enrolment.

    Raises:
        ConfigError: there is no such enrolment, or a file is broken or of other clients or tasks.

    Source: Park et al. 2021 (arXiv:2110.09695), section 5.2, for the four with names; its figure of them is missing.
    """
    how, num_tasks = stream.enrolment, stream.num_tasks
    if how.endswith(".csv"):
        return _read(users_path(WHERE, how), num_clients, num_tasks)
    turn = (np.arange(num_clients) * num_tasks // num_clients)[:, None]
    task = np.arange(num_tasks)
    match how:
        case "all":
            return np.ones((num_clients, num_tasks), np.bool_)
        case "decreasing":
            return np.less(turn, num_tasks - task)
        case "increasing":
            return np.less_equal(turn, task)
        case "scattered":
            return np.equal(turn, task)
        case "random":
            return _random(stream, num_clients, rng)
    raise ConfigError(WHERE, f"{how} is impossible", _ACCEPTED)


def _random(stream: Stream, num_clients: int, rng: np.random.Generator) -> Enrolment:
    """Clients that join and leave, each by itself; the first task has those that join before it, at least one."""
    noise = rng.random((stream.num_tasks, num_clients))
    now = noise[0] < stream.join
    now[noise[0].argmin()] = True
    found = [now]
    for row in noise[1:]:
        now = np.where(now, row >= stream.leave, row < stream.join)
        found.append(now)
    return np.stack(found, 1)


def _read(path: Path, num_clients: int, num_tasks: int) -> Enrolment:
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, ValueError) as error:
        raise ConfigError(WHERE, f"{path} cannot be read ({one_line(error)})", _ACCEPTED) from None
    rows = [[word.strip() for word in line.split(",")] for line in lines if line.strip()]
    for number, row in enumerate(rows, 1):
        if len(row) != num_tasks or not set(row) <= {"0", "1"}:
            what = f"{path}: row {number}, {','.join(row)!r}, is none of {num_tasks} tasks"
            raise ConfigError(WHERE, what, "entries 0 or 1, a column a task")
    if len(rows) != num_clients:
        raise ConfigError(WHERE, f"{path} has {len(rows)} rows, and there are {num_clients} clients", "a row a client")
    return np.array([[word == "1" for word in row] for row in rows])


def enrolled(of_run: Enrolment, task: int) -> Indices:
    """Ids of the clients of a task, ascending."""
    return np.flatnonzero(of_run[:, task])
