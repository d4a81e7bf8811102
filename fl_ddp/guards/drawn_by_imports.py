"""Imports that leave the global generators of torch, numpy and Python as they were."""

from __future__ import annotations

import importlib
import random  # noqa: TID251
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
import torch

_bootstrap: Any = importlib._bootstrap
_plain = _bootstrap._find_and_load
"""How Python imports what is not there yet, by statements and by functions."""
_lock = Lock()
_blocks = 0
"""Blocks of imports_undone() that go on in this process."""


@contextmanager
def imports_undone() -> Iterator[None]:
    """Put back what a module draws when it is imported for the first time, in any thread, until the block ends."""
    global _blocks
    with _lock:
        _bootstrap._find_and_load = _import
        _blocks += 1
    try:
        yield
    finally:
        with _lock:
            _blocks -= 1


def _import(name: str, import_: Any) -> Any:
    if not _blocks:
        return _plain(name, import_)
    of_torch, of_numpy, of_python = torch.get_rng_state(), np.random.get_state(), random.getstate()
    try:
        return _plain(name, import_)
    finally:
        torch.set_rng_state(of_torch)
        np.random.set_state(of_numpy)
        random.setstate(of_python)
