"""Threads of one rank, each of which computes alone."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import TypeVar

import torch

from fl_ddp.engine.lanes import ForEach
from fl_ddp.network.flat_model import FlatModel

Item = TypeVar("Item")
Result = TypeVar("Result")

_ALONE = ContextVar("alone", default=False)
"""Whether this thread does by itself what it would give to workers."""


class Workers:
    """As many threads as torch would use inside an operation, each doing one thing at a time with one torch thread.

    Several threads inside one operation stall on a busy machine and change bits: oneDNN cuts a convolution's weight
    gradient by the number of threads. Sums that are exact and coordinate-wise work need no such care.

    Attributes:
        size: number of things done at once; 1 on a GPU.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._pool = ThreadPoolExecutor(size, "worker", torch.set_num_threads, (1,)) if size > 1 else None

    def map(self, work: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
        """Do something with every item; results in the items' order, the first error after all are done."""
        if self._pool is None or _ALONE.get():
            return list(map(work, items))
        futures = [self._pool.submit(work, item) for item in items]
        errors = [error for future in futures if (error := _error(future))]
        if errors:
            raise errors[0]
        return [future.result() for future in futures]

    def spread(self, work: Callable[[Item], None], items: Iterable[Item]) -> None:
        """Do something with every item, in this thread, which may be one of these, and in those that are idle.

        Raises:
            what fails in this thread, or else first in another; no item is begun after it.
        """
        left = deque(items)

        def some() -> None:
            while left:
                try:
                    item = left.popleft()
                except IndexError:  # another thread has taken it
                    return
                try:
                    work(item)
                except BaseException:
                    left.clear()
                    raise

        if self._pool is None or _ALONE.get() or len(left) < 2:
            some()
            return
        helping = [self._pool.submit(some) for _ in range(min(self.size, len(left)) - 1)]
        try:
            some()
        finally:
            errors = [_error(each) for each in helping if not each.cancel()]
        if found := next(filter(None, errors), None):
            raise found


def _error(future: Future[Result]) -> BaseException | None:
    """What went wrong, once it is done; waits in short turns, as a signal just before a wait is seen only after it."""
    while True:
        try:
            return future.exception(timeout=0.2)
        except TimeoutError:
            continue


def in_this_thread(work: Callable[..., Result], *given: object) -> Result:
    """What a function gives, which does without workers here: whoever watches this thread sees all of it."""
    before = _ALONE.set(True)
    try:
        return work(*given)
    finally:
        _ALONE.reset(before)


@cache
def workers_on(device_type: str) -> Workers:
    """This process's threads for a device."""
    return Workers(torch.get_num_threads() if device_type == "cpu" else 1)


def apart(model: FlatModel) -> ForEach | None:
    """What does something with lanes' models one after another; None where they are looked at side by side.

    On a CPU that beats the grouped convolutions that vmap makes of theirs, and stays behind its batched products.
    """
    return workers_on("cpu").spread if model.device.type == "cpu" and model.convolves else None


@contextmanager
def one_torch_thread(device_type: str) -> Iterator[Workers]:
    """The workers of a device; until the end of the block this thread, too, computes with one torch thread.

    What it does between the workers' turns is too little to be worth waking others, and sums over coordinates in it
    must not depend on the number of threads.
    """
    threads = torch.get_num_threads()
    workers = workers_on(device_type)
    torch.set_num_threads(1)
    try:
        yield workers
    finally:
        torch.set_num_threads(threads)
