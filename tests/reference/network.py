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


class Network32(Network):
    """In single precision."""

    dtype = torch.float32
