"""A test set drawn from samples that come without one."""

from __future__ import annotations

from typing import Annotated

import numpy as np
import numpy.typing as npt

from fl_ddp.bounds import Real
from fl_ddp.errors import ConfigError
from fl_ddp.protocol import Indices

TestShare = Annotated[float, Real(above=0, below=1)]
"""Of all samples; some must stay to train on."""


def held_out(labels: Indices, share: float, seed: int) -> npt.NDArray[np.bool_]:
    """Which samples are for testing, drawn by a seed that is not the run's: all runs are tested on the same.

    Args:
        labels: [N] of all samples; each class gives its share, to one sample, at random.
        share: of all samples, rounded to whole ones.
        seed: of the draw.

    Raises:
        ConfigError: none are left to test, or to train, on.
    """
    shuffled = np.random.Generator(np.random.Philox(key=seed)).permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    before = np.floor(np.arange(len(labels) + 1) * share + 0.5)
    chosen = np.zeros(len(labels), bool)
    chosen[order[np.diff(before) > 0]] = True
    if chosen.all() or not chosen.any():
        what = f"{share} of {len(labels)} samples leaves none to {'train' if chosen.any() else 'test'} on"
        raise ConfigError("--data.test_share", what, "another share, or more samples")
    return chosen
