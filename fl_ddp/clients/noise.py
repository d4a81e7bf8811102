"""Noise of a user's own method, in streams that no layer of the model and no image has of the same key."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from fl_ddp.engine import seeds

_FIRST = 2**22
"""Streams of one method's draws begin here, four for each; dropout layers count theirs from 0, images from 2**20."""


def uniform(key: Tensor, stream: int, shape: Sequence[int]) -> Tensor:
    """Uniform noise in [0, 1) that depends on the key, the stream and the position in the shape alone.

    Args:
        key: [] or [G] int64, such as batch.key, group.keys or info.key.
        stream: number of the draw, from 0; others of a key have nothing to do with each other, nor with normal().
        shape: of the noise of one key.

    Returns:
        [*shape] or [G, *shape], float32.
    """
    return seeds.uniform(key, _FIRST + 4 * stream + 2, shape)


def normal(key: Tensor, stream: int, shape: Sequence[int]) -> Tensor:
    """Standard normal noise, as uniform() has it."""
    return seeds.normal(key, _FIRST // 2 + 2 * stream, shape)
