"""The training and test images as they lie on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fl_ddp.protocol import Inputs


class Normaliser(NamedTuple):
    """How stored values become a network's inputs.

    Attributes:
        mean: per channel, broadcastable to one sample, or None: inputs are not normalised.
        deviation: likewise.
    """

    mean: Tensor | None = None
    deviation: Tensor | None = None

    def inputs(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Turn stored values [..., *sample] into the network's inputs: pixels become [0, 1], then are normalised.

        Tokens stay what they are, in int64.
        """
        if not x.is_floating_point() and x.dtype != torch.uint8:
            return x.long()
        x = scaled(x, dtype).to(dtype)
        return x if self.mean is None or self.deviation is None else (x - self.mean) / self.deviation


class Samples(NamedTuple):
    """Inputs and targets on the device; pixels stay uint8 until a batch is taken.

    Attributes:
        x: [N, ...] uint8 pixels, features in the dtype to work in, or tokens of a signed type.
        y: [N] int64 labels, or numbers [N, C] in the dtype to work in.
        normaliser: of x.
    """

    x: Tensor
    y: Tensor
    normaliser: Normaliser = Normaliser()

    def inputs(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        """Turn stored values into the network's inputs."""
        return self.normaliser.inputs(x, dtype)

    def targets_at(self, rows: Tensor) -> Tensor:
        """Targets of some samples; padding bears the first one's, whose label may not be of the task: label 0 then."""
        y = self.y[rows]
        return y if y.is_floating_point() else y.clamp_min(0)

    def inputs_at(self, at: slice, dtype: torch.dtype) -> Tensor:
        """Inputs of some samples, which a network may write into; those that are stored as they are are copied."""
        return self.inputs(self.x[at] if self.x.dtype == torch.uint8 else self.x[at].clone(), dtype)

    def copies(self, dtype: torch.dtype, rows: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Copies of inputs, as a network takes them, and of targets; all of them, or of some rows."""
        x, y = (self.x, self.y) if rows is None else (self.x[rows], self.y[rows])
        inputs = self.inputs(x, dtype)
        return inputs.clone() if inputs is self.x else inputs, y.clone()  # a whole test set, maybe


def scaled(x: Tensor, dtype: torch.dtype, out: Tensor | None = None) -> Tensor:
    """Pixels of type uint8 as numbers in [0, 1], written into `out` if it is given; anything else as it is."""
    if x.dtype != torch.uint8:
        return x
    return (x.to(dtype) if out is None else out.copy_(x)).div_(255)


def of_channels(values: Sequence[float], ndim: int) -> Tensor:
    """Of samples [N, channels, ...] of ndim axes one number, or one a channel: [1 or channels, 1, ...]."""
    return torch.tensor(values, dtype=torch.float64).view(-1, *(1,) * (ndim - 2))


def channel_statistics(x: Inputs) -> tuple[Tensor, Tensor]:
    """Mean and deviation of each channel of [N, channels, ...] over samples and positions, pixels counted in [0, 1].

    Returns:
        two tensors [channels, 1, ...], float64; a constant channel has deviation 1.
    """
    axes = (0, *range(2, x.ndim))
    shape = (-1,) + (1,) * (x.ndim - 2)
    count = x.size / x.shape[1]
    mean = x.sum(axes, dtype=np.float64) / count
    step = max(1, 2**24 // (x[0].size or 1))
    parts = (np.square(x[i : i + step] - mean.reshape(shape)).sum(axes) for i in range(0, len(x), step))
    deviation = np.sqrt(np.sum([*parts], axis=0) / count)
    scale = 255.0 if x.dtype == np.uint8 else 1.0
    # the mean of equal floats is rounded, so their deviation would not be 0
    deviation = np.where(x.min(axes) == x.max(axes), scale, deviation)
    return torch.from_numpy(mean / scale).view(shape), torch.from_numpy(deviation / scale).view(shape)
