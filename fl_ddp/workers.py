"""Threads of one rank, each of which computes alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


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
        if self._pool is None:
            return [work(item) for item in items]
        futures = [self._pool.submit(work, item) for item in items]
        errors = [error for future in futures if (error := future.exception())]
        if errors:
            raise errors[0]
        return [future.result() for future in futures]


@cache
def workers_on(device_type: str) -> Workers:
    """This process's threads for a device."""
    return Workers(torch.get_num_threads() if device_type == "cpu" else 1)
