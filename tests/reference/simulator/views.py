"""Images as a local step sees them, by torchvision's functions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torchvision.transforms.v2 import functional as tv


def augmented(x: Tensor, draws: Tensor, kinds: Sequence[str]) -> Tensor:
    """Images [b, channels, height, width], one after another.

    Args:
        x: images.
        draws: [b, 3] uniform random numbers: how far down, how far right, whether mirrored.
        kinds: crop, of an image padded by an eighth of each side; flip, after it.
    """
    return torch.stack([_seen(image, row, kinds) for image, row in zip(x, draws.tolist(), strict=True)])


def _seen(image: Tensor, draws: Sequence[float], kinds: Sequence[str]) -> Tensor:
    (height, width), (down, right, mirror) = image.shape[1:], draws
    if "crop" in kinds:
        rows, columns = height // 8, width // 8
        top, left = int(down * (2 * rows + 1)), int(right * (2 * columns + 1))
        image = tv.crop(tv.pad(image, [columns, rows]), top, left, height, width)
    return tv.horizontal_flip(image) if "flip" in kinds and mirror < 0.5 else image
