"""Who takes part in each round: a part of the clients that can be reached, without those that fail."""

from __future__ import annotations

from typing import NamedTuple

from fl_ddp.config.settings import Config
from fl_ddp.engine.seeds import Purpose, keys, unit
from fl_ddp.protocol import Indices
from fl_ddp.ranks.cohort import cohort
from fl_ddp.tasks.availability import Availability, read_availability
from fl_ddp.tasks.world import Worlds


class _Called(NamedTuple):
    """The clients of a round: those that are drawn, and those of them that do not fail."""

    round: int
    drawn: Indices
    left: Indices


class Turnout:
    """The clients of each round, from 0; a function of the configuration alone.

    Attributes:
        availability: who can be reached; None where all always can.
    """

    def __init__(self, config: Config, worlds: Worlds) -> None:
        """Of a run with these clients and tasks.

        Raises:
            ConfigError: there is no such availability.
        """
        self._config, self._worlds = config, worlds
        self.availability: Availability | None = None
        if config.availability is not None:
            self.availability = read_availability(config.availability, config.clients)
        self._known: _Called | None = None

    def drawn(self, index: int) -> Indices:
        """Ids of a round's cohort, ascending: whoever receives the model."""
        return self._called(index).drawn

    def of_round(self, index: int) -> Indices:
        """Ids of those of the cohort that do not fail, ascending: whoever trains and sends something."""
        return self._called(index).left

    def previous(self, index: int) -> int:
        """The last round before this one in which somebody took part; -1 if there was none."""
        before = index - 1
        while before >= 0 and not self._anybody(before):
            before -= 1
        return before

    def deserted(self, rounds: int) -> list[int]:
        """Which of so many rounds, counted from 1, have clients of which none can be reached."""
        if self.availability is None:
            return []
        return [i + 1 for i in range(rounds) if len(self._worlds.present(i)) and not len(self._there(i))]

    def _there(self, index: int) -> Indices:
        present = self._worlds.present(index)
        return self.availability.among(present, index) if self.availability else present

    def _anybody(self, index: int) -> bool:
        return bool(len(self._call(index).left if self._config.dropout_rate else self._there(index)))

    def _called(self, index: int) -> _Called:
        known = self._known  # threads may ask for different rounds
        if known is None or known.round != index:
            known = self._known = self._call(index)
        return known

    def _call(self, index: int) -> _Called:
        seed, rate, there = self._config.seed, self._config.dropout_rate, self._there(index)
        ids = cohort(seed, index, there, self._config.cohort_of(len(there)))
        return _Called(index, ids, ids[unit(keys(seed, index, Purpose.DROPOUT, ids)) >= rate] if rate else ids)
