"""The network of an attacker who has embeddings and wants the images."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

_WIDTH, _CHANNELS = 512, 64
_CONSTANT = 1e-5
"""Of its mean: numbers that deviate less than float32 can tell."""


class Decoder(nn.Module):
    """Embeddings to images with pixels in [0, 1].

    Args:
        known: [N, size] embeddings, whose mean and deviation give the scale; those of one encoder are a thousand
            times those of another.
        shape: (channels, height, width) of an image.
    """

    mean: Tensor
    deviation: Tensor

    def __init__(self, known: Tensor, shape: tuple[int, int, int]) -> None:
        super().__init__()
        deviation, mean = torch.std_mean(known, 0)
        self.register_buffer("mean", mean)
        self.register_buffer("deviation", torch.where(deviation > _CONSTANT * mean.abs(), deviation, 1.0))
        channels, self.height, self.width = shape
        grid = (_CHANNELS, math.ceil(self.height / 4), math.ceil(self.width / 4))
        self.layers = nn.Sequential(
            nn.Linear(known.shape[1], _WIDTH),
            nn.ReLU(),
            nn.Linear(_WIDTH, math.prod(grid)),
            nn.ReLU(),
            nn.Unflatten(1, grid),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(_CHANNELS, _CHANNELS // 2, 3, padding=1),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(_CHANNELS // 2, channels, 3, padding=1),
            nn.Sigmoid(),
        )

    def forward(self, embeddings: Tensor) -> Tensor:
        """Images [B, C, H, W] of embeddings [B, size]."""
        images: Tensor = self.layers((embeddings - self.mean) / self.deviation)
        return images[..., : self.height, : self.width]
