"""Work beside the run's own: what the disk takes its time for."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from fl_ddp.errors import RunError, first_line


class Background:
    """One piece of work at a time in a thread that mostly waits, and must not ask torch to compute or to compile."""

    def __init__(self, what: str) -> None:
        """Of work that is called so in messages."""
        self._what = what
        self._pool = ThreadPoolExecutor(1, "background")
        self._under_way: Future[None] | None = None

    def begin(self, work: Callable[[], None]) -> None:
        """Begin a piece of work once the one before is over; raises as settle() does."""
        self.settle()
        try:
            self._under_way = self._pool.submit(work)
        except RuntimeError:  # the interpreter ends, and a run in another thread has no others any more
            work()

    def settle(self) -> None:
        """Wait until nothing is under way.

        Raises:
            RunError: the work failed, which is told once.
        """
        under_way, self._under_way = self._under_way, None
        if not under_way:
            return
        try:
            under_way.result()
        except RunError:
            raise
        except Exception as error:
            raise RunError(f"{self._what} failed: {first_line(error)}") from error

    def hear(self) -> None:
        """Raise as settle() does if the work is over already."""
        if self._under_way and self._under_way.done():
            self.settle()

    def close(self) -> None:
        """Wait for the last time; raises as settle() does."""
        self._pool.shutdown()
        self.settle()
