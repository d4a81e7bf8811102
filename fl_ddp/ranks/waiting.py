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
"""Seconds in which whoever holds the store answers."""
_BROKEN_AFTER = 5.0
"""Seconds after which a sum that NCCL calls over, and the GPU not, is none: its communicator has failed."""


class PendingSum(Protocol):
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


_newest: deque[PendingSum] = deque(maxlen=2)


def on_host(work: PendingSum) -> Done:
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


def on_gpu(work: PendingSum, event: Event) -> Done:
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


class Question:
    """What a store is asked, without a limit of its own: whoever holds it may stand still, or its machine be lost."""

    def __init__(self, ask: Callable[[], bool], *, gone: bool, silent: bool) -> None:
        """Remember it.

        Args:
            ask: it; in another thread.
            gone: the answer where its process has ended.
            silent: the answer where there is none in two seconds, and from then on until there is one.
        """
        self._ask, self._gone, self._silent = ask, gone, silent
        self._answers = list[bool]()
        self._over: _thread.LockType | None = None

    def answer(self) -> bool:
        """Ask, but not again before the last one is answered: each that waits is a thread."""
        over, limit = self._over, 0.0
        if over is None:
            over, limit = _thread.allocate_lock(), _ANSWER
            over.acquire()
            # a signal's handler that asks may have cut off threading in its lock
            _thread.start_new_thread(self._hear, (over,))
        self._over = over
        if not over.acquire(timeout=limit):
            return self._silent
        self._over = None
        return self._answers.pop()

    def _hear(self, over: _thread.LockType) -> None:
        try:
            self._answers.append(self._ask())
        except Exception:
            self._answers.append(self._gone)
        over.release()


def all_have(board: Board, size: int, mine: bool, limit: float, check: Callable[[], None]) -> bool:
    """Whether all ranks have something, which they say before there is a group in which they could sum.

    Args:
        board: on which nothing of this is told yet.
        size: number of ranks.
        mine: whether this one has it.
        limit: seconds to wait for the others' word, in short turns.
        check: raises where a stop is asked for meanwhile.

    Raises:
        RuntimeError: they do not give it.
    """
    board.add("having", int(mine))
    come, end = board.add("come", 1), time.monotonic() + limit
    while come < size:
        check()
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
