"""A lock between the processes that share a folder."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def file_lock(path: Path) -> Iterator[None]:
    """Hold a file's lock; other processes wait here. It ends with the process, however that dies.

    Args:
        path: an empty file, made if missing and left in place: removing it would let a third process in.

    Raises:
        OSError: the file cannot be made, or its file system knows no locks.
    """
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
