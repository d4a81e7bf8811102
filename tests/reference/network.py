"""The networks of the comparison, given to a run by this file's path as a user gives his own."""

from __future__ import annotations

import torch
from torch import Tensor, nn

HEAD = ("shortcut", "out.weight", "out.bias")
"""Parameters of these networks that the logits depend on and the features do not; the others are the body."""


class Network(nn.Module):
    """Two layers with weights and biases, and a shortcut by which the first feature alone reaches the logits."""

    dtype = torch.float64

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(in_shape[0], 4, dtype=self.dtype)
        self.out = nn.Linear(4, num_classes, dtype=self.dtype)
        self.shortcut = nn.Parameter(torch.rand(num_classes, dtype=self.dtype))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.tanh(self.hidden(x))
        return features, self.out(features) + x[:, :1] * self.shortcut


class Rectified(nn.Module):
    """Two layers with a rectifier between them, which has coordinates that many samples say nothing of."""

    dtype = torch.float64

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(in_shape[0], 6, dtype=self.dtype)
        self.out = nn.Linear(6, num_classes, dtype=self.dtype)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.relu(self.hidden(x))
        return features, self.out(features)


class Normed(nn.Module):
    """Two layers with BatchNorm between them, twice: over pairs of features, so that one sample has a variance."""

    dtype = torch.float64

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(in_shape[0], 8, dtype=self.dtype)
        self.norm = nn.BatchNorm1d(4, dtype=self.dtype)
        self.last = nn.BatchNorm1d(4, momentum=0.3, eps=1e-3, affine=False, dtype=self.dtype)
        self.out = nn.Linear(8, num_classes, dtype=self.dtype)
        self.shortcut = nn.Parameter(torch.rand(num_classes, dtype=self.dtype))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        pairs = torch.tanh(self.norm(self.hidden(x).unflatten(1, (4, 2))))
        features = self.last(pairs.square() + pairs).flatten(1)
        return features, self.out(features) + x[:, :1] * self.shortcut


class Network32(Network):
    """In single precision."""

    dtype = torch.float32
