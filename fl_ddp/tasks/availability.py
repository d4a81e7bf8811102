"""Which clients can be reached in which rounds: a CSV file of intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from fl_ddp.errors import ConfigError
from fl_ddp.partitions.counts_file import is_count, rows_under
from fl_ddp.protocol import Indices
from fl_ddp.reading.homes import users_path

HEAD = ["client", "from", "to"]
WHERE = "--availability"
FORM = "a CSV file client,from,to of rounds counted from 1, both included; nothing behind the last comma is for good"
_FOR_GOOD = 2**31


class Interval(NamedTuple):
    """A client can be reached from one round to another, both included and counted from 1."""

    client: int
    first: int
    last: int


class Availability:
    """Who can be reached; a client without an interval always can.

    Attributes:
        text: the intervals as a file, each as it is written there.
    """

    def __init__(self, intervals: Sequence[Interval], num_clients: int) -> None:
        """Intervals of some of so many clients, in any order; they may overlap."""
        self._of = np.array(intervals, np.int64).reshape(-1, 3)
        self._always = ~np.isin(np.arange(num_clients), self._of[:, 0])
        rows = [(each.client, each.first, "" if each.last == _FOR_GOOD else each.last) for each in intervals]
        self.text = "".join(f"{','.join(map(str, row))}\n" for row in [HEAD, *rows])

    @property
    def remark(self) -> Sequence[str]:
        """What to say of clients without an interval where others have one."""
        always = int(self._always.sum())
        if not always:
            return ()
        return (
            f"{always} of {len(self._always)} clients can be drawn in every round, as {WHERE} has no row of theirs",
        )

    def among(self, clients: Indices, index: int) -> Indices:
        """Those of the clients that can be reached in a round, from 0."""
        now = (self._of[:, 1] <= index + 1) & (index + 1 <= self._of[:, 2])
        return clients[self._always[clients] | np.isin(clients, self._of[now, 0])]


def read_availability(path: str, num_clients: int) -> Availability:
    """The availability that a file gives.

    Raises:
        ConfigError: it cannot be read, or a row is no interval of a client.
    """
    rows = rows_under(users_path(WHERE, path), HEAD, lambda what: ConfigError(WHERE, f"{path} {what}", FORM))
    return Availability([_interval(path, row, num_clients) for row in rows], num_clients)


def _interval(path: str, words: list[str], num_clients: int) -> Interval:
    row = [word.strip() for word in words]
    if len(row) != len(HEAD) or not all(map(is_count, row[:2])) or not (is_count(row[2]) or not row[2]):
        raise ConfigError(WHERE, f"{path}: {','.join(row)!r} is no interval", FORM)
    client, first, last = int(row[0]), int(row[1]), int(row[2]) if row[2] else _FOR_GOOD
    if client >= num_clients:
        raise ConfigError(WHERE, f"{path}: {','.join(row)!r}: there are {num_clients} clients, numbered from 0")
    if not 1 <= first <= last:
        what = "rounds are counted from 1" if first < 1 else "it ends before it begins"
        raise ConfigError(WHERE, f"{path}: {','.join(row)!r}: {what}")
    return Interval(client, first, last)
