"""Where the time of a round goes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol, Self

COMPILING = "compiling"
"""The part of a round that a later one does not have, nor another run on the same machine, which finds it done."""

PHASES = ("training", "summing", "server", "evaluation", "forgetting", "checkpoint", COMPILING, "other")
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
        import torch  # launchers, which know the names of phases, need not

        self._event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        self._event.record()

    def reached(self) -> bool:
        return bool(self._event.query())  # type: ignore[no-untyped-call]

    def seconds_to(self, later: Self) -> float:
        return float(self._event.elapsed_time(later._event)) / 1000


class _Span(NamedTuple):
    """Work between two moments, its phase, its share that counts there, and the first lap in which it may.

    Meanwhile, the host has compiled for some seconds: for all of them, if a GPU had no other work left.
    """

    start: Mark
    end: Mark
    name: str
    share: float
    lap: int
    compiled: float

    def took(self) -> float:
        """Seconds that count."""
        return self.start.seconds_to(self.end) * self.share

    def by_phase(self) -> dict[str, float]:
        """The same, with those of compiling apart."""
        compiled = min(self.compiled, self.start.seconds_to(self.end)) * self.share
        return {self.name: self.took() - compiled, COMPILING: compiled}


class _Compiler:
    """The clock of all that this process compiles: it stands where nothing is, and threads at once count once."""

    def __init__(self) -> None:
        self._blocks, self._began, self._before, self._alone = 0, 0.0, 0.0, threading.Lock()

    @contextmanager
    def running(self) -> Iterator[None]:
        with self._alone:
            if not self._blocks:
                self._began = time.perf_counter()
            self._blocks += 1
        try:
            yield
        finally:
            with self._alone:
                self._blocks -= 1
                if not self._blocks:
                    self._before += time.perf_counter() - self._began

    def seconds(self) -> float:
        with self._alone:
            return self._before + (time.perf_counter() - self._began if self._blocks else 0.0)


_COMPILER = _Compiler()

while_compiling = _COMPILER.running
"""Counts a block of any thread as compiling, in the phase around it."""


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
        self._laps, self._ahead, self._spent, self._compiled_ahead = 0, 0, 0.0, 0.0
        self._began = time.perf_counter()
        self._alone = threading.Lock()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Count the time of a block under a phase."""
        start, before = self._mark(), _COMPILER.seconds() - self._compiled_ahead
        try:
            yield
        finally:
            compiled = _COMPILER.seconds() - self._compiled_ahead - before
            self._add(start, self._mark(), {name: 1.0}, self._ahead, compiled)

    @contextmanager
    def part_of(self, outer: str, name: str, at_once: int) -> Iterator[None]:
        """Count the time of a block, which so many threads are in at once, under a phase instead of one around it."""
        start, before = self._mark(), _COMPILER.seconds()
        try:
            yield
        finally:
            shares = {name: 1 / at_once, outer: -1 / at_once}
            self._add(start, self._mark(), shares, self._ahead, _COMPILER.seconds() - before)

    @contextmanager
    def ahead(self, outer: str, name: str) -> Iterator[None]:
        """Count the time of a block, which does the next lap's work, under a phase there; not under one around it."""
        start, before, self._ahead = self._mark(), _COMPILER.seconds(), 1
        try:
            yield
        finally:
            end, compiled, self._ahead = self._mark(), _COMPILER.seconds() - before, 0
            self._compiled_ahead += compiled
            self._add(start, end, {name: 1.0}, 1, compiled)
            self._add(start, end, {outer: -1.0}, 0)

    def lap(self) -> dict[str, float]:
        """Seconds of each phase since the last lap; starts the next, which has what a GPU has not come to yet."""
        now = time.perf_counter()
        with self._alone:
            reached = {id(span.end): span.end.reached() for span in self._spans}  # of a part and its whole alike
            over = [span.lap <= self._laps and reached[id(span.end)] for span in self._spans]
            spans = [span for span, its in zip(self._spans, over, strict=True) if its]
            self._spans = [span for span, its in zip(self._spans, over, strict=True) if not its]
            self._laps += 1
        seconds = dict.fromkeys(PHASES, 0.0) | self._owed
        for span in spans:
            for name, each in span.by_phase().items():
                seconds[name] += each
        # of the next lap's work what this one has spent
        ahead = sum(span.took() for span in self._spans if span.lap == self._laps and reached[id(span.end)])
        # a part may seem longer than the phase around it, or that may end in the next lap, which pays
        self._owed = {name: each for name, each in seconds.items() if each < 0}
        seconds |= dict.fromkeys(self._owed, 0.0)
        seconds["other"] = max(now - self._began - ahead + self._spent - sum(seconds.values()), 0.0)
        self._began, self._spent = now, ahead
        return seconds

    def _add(self, start: Mark, end: Mark, shares: Mapping[str, float], ahead: int, compiled: float = 0.0) -> None:
        with self._alone:
            lap = self._laps + ahead
            self._spans += [_Span(start, end, name, share, lap, compiled) for name, share in shares.items()]
