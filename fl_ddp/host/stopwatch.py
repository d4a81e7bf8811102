"""Where the time of a round goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol, Self

import torch

PHASES = ("training", "summing", "server", "evaluation", "forgetting", "checkpoint", "other")
"""Parts of a round: clients' local work, sums over clients and ranks, server's step, test set, disk, the rest.

Forgetting is the class-wise test of clients' own models, where that is asked for.
"""


class Mark(Protocol):
    """A moment in the work that is timed."""

    def reached(self) -> bool:
        """Whether the work has come there."""

    def seconds_to(self, later: Self) -> float:
        """Seconds between two moments that are reached."""


class _OnHost:
    """A moment of this thread."""

    def __init__(self) -> None:
        self._time = time.perf_counter()

    def reached(self) -> bool:
        return True

    def seconds_to(self, later: Self) -> float:
        return later._time - self._time


class _OnGpu:
    """A moment in a GPU's queue, into which this thread only puts work that is done later."""

    def __init__(self) -> None:
        self._event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._event.record()

    def reached(self) -> bool:
        return bool(self._event.query())  # type: ignore[no-untyped-call]

    def seconds_to(self, later: Self) -> float:
        return float(self._event.elapsed_time(later._event)) / 1000


class _Span(NamedTuple):
    """Work between two moments, its share that counts, its phase, and the phase around it that it is taken from."""

    start: Mark
    end: Mark
    share: float
    name: str
    outer: str | None = None


class Stopwatch:
    """Seconds by phase since the last lap; what is in no phase is other."""

    def __init__(self, device_type: str = "cpu", mark: Callable[[], Mark] | None = None) -> None:
        """Start.

        Args:
            device_type: where the work is done: a GPU's queue has its own clock, so that nothing must wait for it.
            mark: of the moment, if not the device's.
        """
        self._mark: Callable[[], Mark] = mark or (_OnGpu if device_type == "cuda" else _OnHost)
        self._spans: list[_Span] = []
        self._owed: dict[str, float] = {}
        self._lap = time.perf_counter()
        self._alone = threading.Lock()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of a block under a phase."""
        start = self._mark()
        try:
            yield
        finally:
            self._add(_Span(start, self._mark(), 1.0, name))

    @contextmanager
    def part_of(self, outer: str, name: str, at_once: int) -> Iterator[None]:
        """Count the time of a block, which so many threads are in at once, under a phase instead of one around it."""
        start = self._mark()
        try:
            yield
        finally:
            self._add(_Span(start, self._mark(), 1 / at_once, name, outer))

    def lap(self) -> dict[str, float]:
        """Seconds of each phase since the last lap; starts the next, which has what a GPU has not come to yet."""
        now = time.perf_counter()
        with self._alone:
            spans = self._spans
            reached = [span.end.reached() for span in spans]
            self._spans = [span for span, over in zip(spans, reached, strict=True) if not over]
        seconds = dict.fromkeys(PHASES, 0.0) | self._owed
        for span, over in zip(spans, reached, strict=True):
            if over:
                took = span.start.seconds_to(span.end) * span.share
                seconds[span.name] += took
                if span.outer is not None:
                    seconds[span.outer] -= took
        # a part may seem longer than the phase around it, or that may end in the next lap, which pays
        self._owed = {name: each for name, each in seconds.items() if each < 0}
        seconds |= dict.fromkeys(self._owed, 0.0)
        seconds["other"] = max(now - self._lap - sum(seconds.values()), 0.0)
        self._lap = now
        return seconds

    def _add(self, span: _Span) -> None:
        with self._alone:
            self._spans.append(span)
