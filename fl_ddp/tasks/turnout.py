"""Who takes part in each round: a part of the clients that can be reached, without those that fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from fl_ddp.config.settings import Config
from fl_ddp.engine.seeds import Purpose, keys, unit
from fl_ddp.protocol import Counts, Indices, Round
from fl_ddp.ranks.cohort import cohort
from fl_ddp.streams.stream import Stream
from fl_ddp.tasks.availability import Availability, read_availability
from fl_ddp.tasks.world import Worlds

Known = TypeVar("Known")


class _Called(NamedTuple):
    """The clients of a round: those that are drawn, the stragglers among them, and those that do not fail."""

    drawn: Indices
    late: Indices
    left: Indices


class Turnout:
    """The clients of each round, from 0; a function of the configuration alone.

    Attributes:
        availability: who can be reached; None where all always can.
    """

    def __init__(self, config: Config, worlds: Worlds, stream: Stream) -> None:
        """Of a run with these clients and tasks.

        Raises:
            ConfigError: there is no such availability.
        """
        self._config, self._worlds, self._stream = config, worlds, stream
        self.availability: Availability | None = None
        if config.availability is not None:
            self.availability = read_availability(config.availability, config.clients)
        self._known: dict[int, _Called] = {}
        self._rounds: dict[int, Round] = {}

    def drawn(self, index: int) -> Indices:
        """Ids of a round's cohort, ascending: whoever receives the model."""
        return self._called(index).drawn

    def of_round(self, index: int) -> Indices:
        """Ids of those of the cohort that do not fail, ascending: whoever trains and sends something."""
        return self._called(index).left

    def stragglers(self, index: int) -> Indices:
        """Ids of those of the cohort that do not do all of their work."""
        return self._called(index).late

    def round(self, index: int) -> Round:
        """What groups know of a round."""
        known = self._rounds = _beside_newest(self._rounds, index, self._round)  # each of thousands of groups asks
        return known[index]

    def previous(self, index: int) -> int:
        """The last round before this one in which somebody took part; -1 if there was none."""
        before = index - 1
        while before >= 0 and not self._anybody(before):
            before -= 1
        return before

    def ends_task(self, index: int) -> bool:
        """Whether nobody takes part in a round's task after it, and another task follows."""
        stream, after = self._stream, index
        while not stream.ends_task(after):
            after += 1
            if stream.task(after) == stream.num_tasks - 1 or self._anybody(after):
                return False
        return True

    def goes_on(self, index: int) -> bool:
        """Whether a round is of the same task as the one before it."""
        return self._stream.task(index) == self._stream.task(index - 1)

    def deserted(self, rounds: int) -> list[int]:
        """Which of so many rounds, counted from 1, have clients of which none can be reached."""
        if self.availability is None:
            return []
        return [i + 1 for i in range(rounds) if len(self._worlds.present(i)) and not len(self._there(i))]

    def _round(self, index: int) -> Round:
        return Round(index, self.previous(index), self.ends_task(index), self._stream.task(index))

    def _there(self, index: int) -> Indices:
        present = self._worlds.present(index)
        return self.availability.among(present, index) if self.availability else present

    def _anybody(self, index: int) -> bool:
        some_leave = self._config.dropout_rate or self._config.drop_stragglers
        return bool(len(self._call(index).left if some_leave else self._there(index)))

    def _called(self, index: int) -> _Called:
        known = self._known = _beside_newest(self._known, index, self._call)
        return known[index]

    def _call(self, index: int) -> _Called:
        seed, rate, there = self._config.seed, self._config.dropout_rate, self._there(index)
        ids = cohort(seed, index, there, self._config.cohort_of(len(there)), self._weights(there, index))
        late = self._late(index, ids)
        left = ids[unit(keys(seed, index, Purpose.DROPOUT, ids)) >= rate] if rate else ids
        return _Called(ids, late, np.setdiff1d(left, late) if self._config.drop_stragglers else left)

    def _weights(self, there: Indices, index: int) -> Counts | None:
        """Samples of clients in a round, where they are drawn by them."""
        if self._config.client_sampling == "uniform":
            return None
        parts = self._worlds.parts(index)
        return np.array([len(parts[i]) for i in there], np.int64)

    def _late(self, index: int, ids: Indices) -> Indices:
        """A share of a cohort, drawn by a key of each."""
        number = self._config.stragglers_of(len(ids))
        if not number:
            return ids[:0]
        return ids[np.argsort(keys(self._config.seed, index, Purpose.STRAGGLER, ids))[:number]]


def _beside_newest(known: dict[int, Known], index: int, make: Callable[[int], Known]) -> dict[int, Known]:
    """What is known of a round, and of the newest one: a round is looked at while the next one is put together.

    Threads may ask for different rounds, so what they look at is never changed.
    """
    return known if index in known else dict(list(known.items())[-1:]) | {index: make(index)}


def rounds_in_words(rounds: Sequence[int]) -> str:
    """Such as round 3, or rounds 3 to 5 and 2 more."""
    first = rounds[0]
    last = next(r for r, after in zip(rounds, [*rounds[1:], 0], strict=True) if after != r + 1)
    more = len(rounds) - (last - first + 1)
    return (f"round {first}" if first == last else f"rounds {first} to {last}") + (f" and {more} more" if more else "")
