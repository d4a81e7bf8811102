"""Where the time of a round goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PHASES = ("training", "summing", "server", "evaluation", "forgetting", "checkpoint", "other")
"""Parts of a round: clients' local work, sums over clients and ranks, server's step, test set, disk, the rest.

Forgetting is the class-wise test of clients' own models, where that is asked for.
"""


class Stopwatch:
    """Seconds by phase since the last lap; what is in no phase is other."""

    def __init__(self) -> None:
        self._seconds = dict.fromkeys(PHASES, 0.0)
        self._lap = time.perf_counter()
        self._alone = threading.Lock()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of a block under a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] += time.perf_counter() - start

    @contextmanager
    def part_of(self, outer: str, name: str, at_once: int) -> Iterator[None]:
        """Count the time of a block, which so many threads are in at once, under a phase instead of one around it."""
        start = time.perf_counter()
        try:
            yield
        finally:
            seconds = (time.perf_counter() - start) / at_once
            with self._alone:
                self._seconds[name] += seconds
                self._seconds[outer] -= seconds

    def lap(self) -> dict[str, float]:
        """Seconds of each phase since the last lap; starts the next."""
        now = time.perf_counter()
        seconds = self._seconds
        seconds["other"] = max(now - self._lap - sum(seconds.values()), 0.0)
        self._seconds, self._lap = dict.fromkeys(PHASES, 0.0), now
        return seconds
