"""Numbers of samples that users' code is given, which are the run's, and that it gives."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Indices


def read_only(array: Indices) -> Indices:
    """The same array, which cannot be written into."""
    view = array.view()
    view.flags.writeable = False
    return view


def refuse_other_samples(rows: Indices, size: int, refused: Callable[[str, str], ConfigError]) -> None:
    """Refuse samples [n] that are not some of a set.

    Args:
        rows: the samples.
        size: of the set.
        refused: makes the error of what was given and what would be accepted.

    Raises:
        ConfigError: one is beyond the set, or in it twice.
    """
    if len(beyond := rows[(rows < 0) | (rows >= size)]):
        raise refused(f"the sample {beyond[0]}", f"0 to {size - 1}")
    if len(np.unique(rows)) < len(rows):
        raise refused("a sample twice", "each at most once")
