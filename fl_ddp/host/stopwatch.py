"""Where the time of a round goes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

PHASES = ("training", "summing", "server", "evaluation", "checkpoint", "other")
"""Parts of a round: clients' local work, sums over clients and ranks, server's step, test set, disk, the rest."""


class Stopwatch:
    """Seconds by phase since the last lap; what is in no phase is other."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._lap = time.perf_counter()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of a block under a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] += time.perf_counter() - start

    def lap(self) -> dict[str, float]:
        """Seconds of each phase since the last lap; starts the next."""
        now = time.perf_counter()
        seconds = self._seconds
        seconds["other"] = max(now - self._lap - sum(seconds.values()), 0.0)
        self._seconds, self._lap = dict.fromkeys(PHASES, 0.0), now
        return seconds
