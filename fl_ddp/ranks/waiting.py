"""How a rank waits for a sum over all ranks: in short turns, so that it hears signals, lost ranks and a limit."""

from __future__ import annotations

import _thread
import ctypes
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from fl_ddp.errors import RankLostError

TURN = 0.2
"""Seconds after which a waiting rank looks around; Python hears signals only then."""
GONE = "another rank is gone (killed, out of memory, or its machine lost)"
_LONGEST_PAUSE = 1e-3
_ANSWER = 2.0
_BROKEN_AFTER = 5.0
"""Seconds after which a sum that NCCL calls over, and the GPU not, is none: its communicator has failed."""


class Work(Protocol):
    """A sum under way."""

    def is_completed(self) -> bool:
        """Whether it is over, well or not."""

    def wait(self, timeout: timedelta = ...) -> bool:
        """Wait so long for it; an error if it failed or takes longer."""


class Board(Protocol):
    """Counts that all ranks see, such as a store of torch's."""

    def add(self, key: str, amount: int, /) -> int:
        """A count with so many more."""


class Event(Protocol):
    """A place in a GPU's queue."""

    def query(self) -> bool:
        """Whether the GPU has come there."""


Done = Callable[[float], bool]
"""Whether a sum is over: at once if so, else after about so many seconds."""


_newest: deque[Work] = deque(maxlen=2)


def on_host(work: Work) -> Done:
    """When a sum of gloo's is over."""
    _newest.append(work)

    def done(seconds: float) -> bool:
        if not work.is_completed():
            try:
                work.wait(timedelta(seconds=seconds))
            except RuntimeError:
                if not work.is_completed():
                    return False
        work.wait()
        return True

    return done


def keep_newest() -> None:
    """Never free the newest sums of gloo's, so that this process may end at once.

    The thread that has made them may let go of their tensors last, and asks Python for that: where Python is ending by
    then, C++ aborts.
    """
    while _newest:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(_newest.pop()))


def on_gpu(work: Work, event: Event) -> Done:
    """When a sum of NCCL's is over, whose call returns at once.

    Args:
        work: NCCL's, which knows whether its communicator has failed.
        event: in the GPU's queue behind it.
    """
    called_over: float | None = None

    def done(seconds: float) -> bool:
        nonlocal called_over
        start = time.perf_counter()
        while not event.query():
            waited = time.perf_counter() - start
            if waited > seconds:
                break
            time.sleep(min(waited / 50, _LONGEST_PAUSE))
        else:
            return True
        if work.is_completed():
            called_over = called_over or time.monotonic()
            if time.monotonic() - called_over > _BROKEN_AFTER:
                raise RankLostError(GONE)
        return False

    return done


def answered(ask: Callable[[], bool], *, gone: bool, silent: bool) -> bool:
    """What a store answers, which has no limit of its own: whoever holds it may stand still, or its machine be lost.

    Args:
        ask: it; in another thread.
        gone: the answer where its process has ended.
        silent: the answer where there is none in two seconds.
    """
    answers, over = list[bool](), _thread.allocate_lock()
    over.acquire()

    def hear() -> None:
        try:
            answers.append(ask())
        except RuntimeError:
            answers.append(gone)
        over.release()

    _thread.start_new_thread(hear, ())  # a signal's handler that asks may have cut off threading in its lock
    over.acquire(timeout=_ANSWER)
    return answers[0] if answers else silent


def all_have(board: Board, size: int, mine: bool, limit: float) -> bool:
    """Whether all ranks have something, which they say before there is a group in which they could sum.

    Args:
        board: on which nothing of this is told yet.
        size: number of ranks.
        mine: whether this one has it.
        limit: seconds to wait for the others' word, in short turns.

    Raises:
        RuntimeError: they do not give it.
    """
    board.add("having", int(mine))
    come, end = board.add("come", 1), time.monotonic() + limit
    while come < size:
        if time.monotonic() > end:
            raise RuntimeError(f"{come} of {size} have come in {limit:g} seconds")
        time.sleep(_LONGEST_PAUSE * 20)
        come = board.add("come", 0)
    return board.add("having", 0) == size


def wait(done: Done, limit: float, lost: Callable[[], bool]) -> None:
    """Wait until a sum is over; a signal's handler may end the process meanwhile.

    Args:
        done: whether it is.
        limit: seconds that other ranks may be silent for; time in which this process was stopped does not count.
        lost: whether another rank is known to be gone.

    Raises:
        RankLostError: a rank is gone, or silent for longer.
    """
    waited, last = 0.0, time.monotonic()
    while not done(TURN):
        if lost():
            raise RankLostError(GONE)
        now = time.monotonic()
        waited, last = waited + min(now - last, 5 * TURN), now
        if waited > limit:
            raise RankLostError(f"another rank is silent for longer than --rank_timeout {limit:g} seconds")
