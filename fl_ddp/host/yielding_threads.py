"""Threads that do not take the core from others that are at work."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress


@contextmanager
def yielding_threads() -> Iterator[None]:
    """Let threads that the block starts wait for a free core when they are woken; SCHED_BATCH of Linux.

    Gloo's thread of the network spins while another one holds what it needs; woken on that one's core, it keeps both
    from going on until the kernel's next tick, up to 4 ms. What else the process does is scheduled as before.
    """
    if not hasattr(os, "SCHED_BATCH") or os.sched_getscheduler(0) != os.SCHED_OTHER:
        yield
        return
    unchanged = os.sched_param(0)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, unchanged)
    try:
        yield
    finally:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_OTHER, unchanged)
