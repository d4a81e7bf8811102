"""Torch's compiler for CPUs where an operation waits for another without reading what it gives.

A write in place waits so for those that read what it overwrites. Where torch (2.14, 2.15) looks for values that it need
not store, it asks each user of a value where it reads it, and fails at one that does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import RLock
from unittest import mock

_ONE_AT_A_TIME = RLock()


@contextmanager
def with_waiting_users() -> Iterator[None]:
    """In a block, a user that does not read a value reads it nowhere, so that the value is stored."""
    from torch._inductor.loop_body import LoopBody  # takes a second that eager runs can spare

    find: Callable[[LoopBody, str], object] = LoopBody.get_read_expr

    def read(body: LoopBody, name: str) -> object:
        try:
            return find(body, name)
        except KeyError:
            return None

    with _ONE_AT_A_TIME, mock.patch.object(LoopBody, "get_read_expr", read):
        yield
