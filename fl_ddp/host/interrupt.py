"""How a process ends from outside: stop signals end it after the current local step, a dead launcher at once.

Nothing here imports torch, so that it is in force from a process's first moments.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from fl_ddp.errors import InterruptedRunError

_PR_SET_PDEATHSIG = 1
_STOPS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)
"""The last is the warning of Slurm, as submitit asks for it, before it takes a job's nodes or its time is over."""


class StopRequest:
    """Whether a stop was asked for.

    Attributes:
        asked: set by the first of these signals; a second SIGINT ends the process at once, or what it runs.
        nothing_to_save: until the first round of this process is done a stop may end it at once: compiling the first
            step can take longer than a launcher waits, and there is nothing to lose yet.
        first_to_say: whether this rank is the one that tells the user so.
    """

    def __init__(self, owns_process: bool = True) -> None:
        """Start without a request.

        Args:
            owns_process: a second SIGINT ends the process; if not, as in a notebook, it is a KeyboardInterrupt.
        """
        self.asked = False
        self._owns_process = owns_process
        self.nothing_to_save = False
        self.first_to_say: Callable[[], bool] = lambda: os.environ.get("RANK", "0") == "0"

    def check(self) -> None:
        """Raise InterruptedRunError if a stop was asked for."""
        if self.asked:
            raise InterruptedRunError("stopped before a round was finished")

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self.nothing_to_save:
            if self.first_to_say():
                os.write(sys.stderr.fileno(), b"fl_ddp: stopped before a round was finished\n")
            os._exit(0)
        if self.asked and number == signal.SIGINT:
            if not self._owns_process:
                raise KeyboardInterrupt
            os._exit(130)
        self.asked = True


@contextmanager
def listening(owns_process: bool = True) -> Iterator[StopRequest]:
    """Catch SIGINT, SIGTERM and SIGUSR2 within a block; outside the main thread they stay as they are."""
    stop, before = StopRequest(owns_process), dict[int, Any]()
    with suppress(ValueError):
        before = {number: signal.signal(number, stop._receive) for number in _STOPS}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def die_with_launcher() -> None:
    """Under torchrun or submitit, have the kernel kill this worker when its launcher dies.

    A kill -9 would leave it running.
    """
    if {"TORCHELASTIC_RUN_ID", "SUBMITIT_EXECUTOR"} & os.environ.keys():
        die_with(os.getppid())


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies; what it becomes by exec, too. Linux alone can.

    Args:
        parent: its id; if that is not this process's parent any more, this one ends at once.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)
