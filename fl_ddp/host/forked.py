"""Processes that were forked from one that had made a run, in which torch waits for threads that it lacks."""

from __future__ import annotations

import os

from fl_ddp.errors import ConfigError

_began: list[int] = []
"""The process in which the first run began, of this process or of those that it was forked from."""


def refuse_forked() -> None:
    """Refuse a run in a process that was forked from one that had made another; to be called where each run begins.

    Raises:
        ConfigError: it was.
    """
    if not _began:
        _began.append(os.getpid())
    if _began != [os.getpid()]:
        what = "was forked from one that had made a run, and lacks the threads that torch would wait for"
        raise ConfigError("this process", what, "one that is started anew: mp_context=get_context('spawn')")
