"""Phases are timed by the clock of whoever does the work, and nothing waits for it."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Self

import pytest
import torch

from fl_ddp.host.stopwatch import PHASES, Stopwatch, while_compiling


class Queue:
    """A GPU's: work is put in at once and done later.

    Attributes:
        put: seconds of work put in so far.
        done: seconds of it that are done.
    """

    def __init__(self) -> None:
        self.put, self.done = 0.0, 0.0

    def mark(self) -> Place:
        return Place(self)


class Place:
    """A place in it."""

    def __init__(self, queue: Queue) -> None:
        self._queue, self._at = queue, queue.put

    def reached(self) -> bool:
        return self._queue.done >= self._at

    def seconds_to(self, later: Self) -> float:
        assert self.reached() and later.reached(), "not timed yet: a real event would raise"
        return later._at - self._at


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of the host's clock, which stands but for what a test adds."""
    now = [0.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_on_a_gpu_a_phase_has_the_time_of_its_work_and_not_of_its_call() -> None:
    queue = Queue()
    watch = Stopwatch(mark=queue.mark)
    for name, seconds in (("training", 3.0), ("summing", 0.5), ("training", 2.0)):
        with watch.phase(name):
            queue.put += seconds
    queue.done = queue.put
    lap = watch.lap()
    assert (lap["training"], lap["summing"], lap["other"]) == (5.0, 0.5, 0.0)
    assert watch.lap()["training"] == 0.0


def test_what_the_gpu_has_not_come_to_is_the_next_laps() -> None:
    queue = Queue()
    watch = Stopwatch(mark=queue.mark)
    with watch.phase("training"):
        queue.put += 3.0
    with watch.phase("server"):
        queue.put += 1.0
    queue.done = 3.5
    first = watch.lap()
    queue.done = queue.put
    second = watch.lap()
    assert (first["training"], first["server"]) == (3.0, 0.0)
    assert (second["training"], second["server"]) == (0.0, 1.0)


class Runs(Queue):
    """One that goes on while it is asked."""

    def mark(self) -> Place:
        return Moving(self)


class Moving(Place):
    """A place in it."""

    def reached(self) -> bool:
        before, self._queue.done = super().reached(), self._queue.put
        return before


@pytest.mark.parametrize(("queue", "left"), [(Queue(), 0.0), (Runs(), 0.5)], ids=["done", "reached while asked"])
def test_a_part_is_taken_from_the_phase_around_it(queue: Queue, left: float) -> None:
    """Both are of one lap."""
    watch = Stopwatch(mark=queue.mark)
    with watch.phase("training"):
        queue.put += 3.0
        with watch.part_of("training", "forgetting", 1):
            queue.put += 1.0
    queue.done = queue.put - left
    seconds = watch.lap()
    assert (seconds["training"], seconds["forgetting"]) == (3.0, 1.0)


def test_no_phase_takes_less_than_no_time() -> None:
    """The clock's own noise may make a part longer than the phase around it."""
    queue = Queue()
    watch = Stopwatch(mark=queue.mark)
    with watch.part_of("server", "training", 1):
        queue.put += 1e-6
    with watch.phase("server"):
        pass
    queue.done = queue.put
    seconds = watch.lap()
    assert (seconds["server"], seconds["training"]) == (0.0, 1e-6)


def test_what_a_lap_cannot_take_from_a_phase_the_next_one_takes() -> None:
    """Where a lap is over between the end of a part and that of the phase around it."""
    queue = Queue()
    watch = Stopwatch(mark=queue.mark)
    with watch.phase("server"):
        queue.put += 1.0
        with watch.part_of("server", "training", 1):
            queue.put += 10.0
        queue.put += 0.5
    queue.done = 11.25
    first = watch.lap()
    queue.done = queue.put
    second = watch.lap()
    assert (first["server"], first["training"]) == (0.0, 10.0)
    assert (second["server"], second["training"]) == (1.5, 0.0)


@pytest.mark.parametrize("over", [True, False])
def test_what_is_done_ahead_counts_in_the_next_lap_with_its_parts(over: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A round's row has its own training, whether the GPU has come there before the row is written or not."""
    queue = Queue()
    monkeypatch.setattr(time, "perf_counter", lambda: queue.done)
    watch = Stopwatch(mark=queue.mark)
    with watch.phase("training"):
        queue.put += 5.0
    with watch.phase("server"):
        queue.put += 1.0
        with watch.ahead("server", "training"):
            queue.put += 3.0
            with watch.part_of("training", "forgetting", 1):
                queue.put += 0.5
        queue.put += 0.25
    queue.done = queue.put if over else 6.0
    first = watch.lap()
    queue.done = queue.put
    second = watch.lap()
    third = watch.lap()
    assert (first["training"], first["forgetting"], first["server"]) == (5.0, 0.0, 1.25 if over else 0.0)
    assert (second["training"], second["forgetting"], second["server"]) == (3.0, 0.5, 0.0 if over else 1.25)
    assert sum(third.values()) == 0.0
    # what is ahead is no other work of the lap in which it is done; half of the server's step is none of its yet
    assert (first["other"], second["other"]) == (0.0 if over else 1.0, 0.0)


def test_on_a_cpu_phases_and_the_rest_are_all_the_time_there_was(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 4.0, 6.0, 7.0, 10.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    watch = Stopwatch()
    with watch.phase("training"):
        pass
    with watch.phase("checkpoint"):
        pass
    seconds = watch.lap()
    assert seconds == {**dict.fromkeys(PHASES, 0.0), "training": 3.0, "checkpoint": 1.0, "other": 6.0}


def test_compiling_is_a_phase_of_its_own(now: list[float]) -> None:
    watch = Stopwatch()
    with watch.phase("training"):
        now[0] += 1.0
        with while_compiling():
            now[0] += 3.0
            with while_compiling():  # of something within
                now[0] += 0.5
        now[0] += 0.25
    with watch.phase("summing"):
        now[0] += 2.0
    with while_compiling():  # in no phase, so it is other
        now[0] += 4.0
    seconds = watch.lap()
    assert seconds == {
        **dict.fromkeys(PHASES, 0.0),
        "training": 1.25,
        "compiling": 3.5,
        "summing": 2.0,
        "other": 4.0,
    }
    with watch.phase("training"):
        now[0] += 1.0
    assert watch.lap() == {**dict.fromkeys(PHASES, 0.0), "training": 1.0}


def test_threads_that_compile_at_once_count_once(now: list[float]) -> None:
    at_once = Barrier(2, action=lambda: now.__setitem__(0, now[0] + 3.0))

    def compile_something(_: int) -> None:
        with while_compiling():
            at_once.wait(60)

    watch = Stopwatch()
    with ThreadPoolExecutor(2) as workers, watch.phase("training"):
        now[0] += 5.0  # a phase has no more of compiling than it takes
        list(workers.map(compile_something, range(2)))
    assert watch.lap() == {**dict.fromkeys(PHASES, 0.0), "training": 5.0, "compiling": 3.0}


def test_a_phase_that_begins_while_something_is_compiled_has_the_rest_of_it(now: list[float]) -> None:
    watch = Stopwatch()
    with while_compiling():
        now[0] += 1.0
        with watch.phase("training"):
            now[0] += 3.0
    assert watch.lap() == {**dict.fromkeys(PHASES, 0.0), "compiling": 3.0, "other": 1.0}


def test_what_is_compiled_ahead_is_the_next_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU's queue waits for the host as long as that compiles."""
    queue = Queue()
    monkeypatch.setattr(time, "perf_counter", lambda: queue.put)
    watch = Stopwatch(mark=queue.mark)
    with watch.phase("server"):
        queue.put += 1.0
        with watch.ahead("server", "training"):
            queue.put += 2.0
            with while_compiling():
                queue.put += 5.0
    queue.done = queue.put
    first, second = watch.lap(), watch.lap()
    assert first == {**dict.fromkeys(PHASES, 0.0), "server": 1.0}
    assert second == {**dict.fromkeys(PHASES, 0.0), "training": 2.0, "compiling": 5.0}


def test_what_is_compiled_ahead_of_a_gpu_at_work_takes_nothing_of_the_phase_around_it(
    now: list[float],
) -> None:
    queue = Queue()
    watch = Stopwatch(mark=queue.mark)
    with watch.phase("server"):
        queue.put += 1.0
        with watch.ahead("server", "training"):
            queue.put += 2.0
            with while_compiling():
                now[0] += 5.0
    queue.done, now[0] = queue.put, 8.0
    first = watch.lap()
    assert (first["server"], first["compiling"]) == (1.0, 0.0)


def test_what_is_compiled_in_a_part_of_a_phase_counts_once(now: list[float]) -> None:
    watch = Stopwatch()
    with watch.phase("training"):
        now[0] += 1.0
        with watch.part_of("training", "forgetting", 1):
            now[0] += 0.5
            with while_compiling():
                now[0] += 3.0
    assert watch.lap() == {**dict.fromkeys(PHASES, 0.0), "training": 1.0, "forgetting": 0.5, "compiling": 3.0}


def test_what_is_compiled_while_the_gpu_has_work_takes_no_time_of_its_own(now: list[float]) -> None:
    """The phase behind that work begins when it is done, and owes nothing to later rounds."""
    queue = Queue()
    watch = Stopwatch(mark=queue.mark)
    with watch.phase("training"):
        queue.put += 6.0
    with watch.phase("summing"), while_compiling():
        now[0] += 5.0
        queue.put += 0.25
    queue.done, now[0] = queue.put, 6.25
    assert watch.lap() == {**dict.fromkeys(PHASES, 0.0), "training": 6.0, "compiling": 0.25}
    with watch.phase("summing"):
        queue.put += 0.25
    queue.done, now[0] = queue.put, 6.5
    assert watch.lap() == {**dict.fromkeys(PHASES, 0.0), "summing": 0.25}


def test_the_clock_is_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    class Event:
        def __init__(self, enable_timing: bool) -> None:
            assert enable_timing

        def record(self) -> None:
            asked.append("record")

        def query(self) -> bool:
            asked.append("query")
            return True

        def elapsed_time(self, later: Event) -> float:
            assert later is not self
            return 2500.0

    asked: list[str] = []
    monkeypatch.setattr(torch.cuda, "Event", Event)
    watch = Stopwatch("cuda")
    with watch.phase("training"):
        assert asked == ["record"]
    assert watch.lap()["training"] == 2.5 and asked == ["record", "record", "query"]
    with Stopwatch("cpu").phase("training"):
        assert len(asked) == 3
