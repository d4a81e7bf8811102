"""Images as a local step sees them: shifted and mirrored at random, anew in each step."""

from __future__ import annotations

import torch
from torch import Tensor

from fl_ddp.engine.choices import Augmentation
from fl_ddp.engine.seeds import uniform

_STREAM = 2**20
"""Of a step's noise; layers and methods count theirs from 0."""


def most_shifted(side: int) -> int:
    """By how many pixels crop shifts an image of this side at most: 4 of 32."""
    return side // 8


def augmented(x: Tensor, key: Tensor, kinds: tuple[Augmentation, ...]) -> Tensor:
    """Images [B, C, H, W] of a client's step, each drawn by the step's key [].

    crop is torchvision's RandomCrop of an image padded with 0, flip its RandomHorizontalFlip after it.
    """
    size, _, height, width = x.shape
    down, right, mirror = uniform(key, _STREAM, [size, 3]).unbind(1)
    rows = torch.arange(height, device=x.device).expand(size, -1)
    columns = torch.arange(width, device=x.device).expand(size, -1)
    if "flip" in kinds:
        columns = torch.where(mirror[:, None] < 0.5, columns.flip(1), columns)
    if "crop" in kinds:
        rows, columns = rows + _shift(down, height), columns + _shift(right, width)
    inside = _within(rows, height)[:, None, :, None] & _within(columns, width)[:, None, None, :]
    rows, columns = rows.clamp(0, height - 1), columns.clamp(0, width - 1)
    taken = x.gather(2, rows[:, None, :, None].expand(x.shape)).gather(3, columns[:, None, None, :].expand(x.shape))
    return torch.where(inside, taken, 0)


def _shift(noise: Tensor, side: int) -> Tensor:
    """Whole numbers [B, 1] between minus and plus the most, by noise [B] in [0, 1)."""
    most = most_shifted(side)
    return (noise[:, None] * (2 * most + 1)).long() - most


def _within(index: Tensor, size: int) -> Tensor:
    return (index >= 0) & (index < size)
