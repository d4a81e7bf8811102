"""Ctrl-C and SIGTERM: stop after the current local step, drop the unfinished round."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class InterruptedRunError(Exception):
    """The user or the launcher asked the run to stop."""


class StopRequest:
    """Whether a stop was asked for.

    Attributes:
        asked: set by the first SIGINT or SIGTERM; a second SIGINT ends the process at once.
        nothing_to_save: until the first round of this process is done a stop ends it at once: compiling the first step
            can take longer than a launcher waits, and there is nothing to lose yet.
    """

    def __init__(self) -> None:
        self.asked = False
        self.nothing_to_save = False

    def check(self) -> None:
        """Raise InterruptedRunError if a stop was asked for."""
        if self.asked:
            raise InterruptedRunError

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self.nothing_to_save:
            if int(os.environ.get("RANK", 0)) == 0:
                os.write(sys.stderr.fileno(), b"fl_ddp: stopped before a round was finished\n")
            os._exit(0)
        if self.asked and number == signal.SIGINT:
            os._exit(130)
        self.asked = True


@contextmanager
def listening() -> Iterator[StopRequest]:
    """Catch SIGINT and SIGTERM within a block; outside the main thread they stay as they are."""
    stop = StopRequest()
    try:
        before = {number: signal.signal(number, stop._receive) for number in (signal.SIGINT, signal.SIGTERM)}
    except ValueError:
        yield stop
        return
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
