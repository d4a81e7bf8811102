"""The small federation that public implementations and this program train: samples, start and cohorts by formula."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

SIZES = (8, 6, 5, 3)
"""Samples of each client; of the last class all are the first client's."""
FEATURES, HIDDEN, CLASSES = 4, 5, 4
COHORTS: Sequence[Sequence[int]] = ((0, 1, 2), (1, 2, 3), (0, 2, 3))
"""Who trains in each round: all are known after the second, and every client but one rests once."""
EVERYBODY: Sequence[Sequence[int]] = (range(4),) * 3
TOGETHER: Sequence[Sequence[int]] = (range(4), (1, 2, 3), (0, 2, 3))
"""All in the first round, so that whoever comes later remembers something."""
ONE_BY_ONE: Sequence[Sequence[int]] = ((0, 1), (2, 1), (3, 0), (2,), (1,))
"""At most one in a round has trained before, who comes last."""
WITH_FIRST: Sequence[Sequence[int]] = ((0, 1, 2), (0, 2, 3), (0, 1, 3))
"""The first client always, who alone has samples of every class."""
ARRIVING: Sequence[Sequence[int]] = ((0, 1), (0, 1, 2), (1, 2, 3), (2, 3))
"""Nobody comes back after a rest."""
LATER: Sequence[Sequence[int]] = ((0, 1), (2, 3), (2, 3))
"""Who trains in each round where the first one's clients have no other."""
LR, EPOCHS = 0.25, 2
"""Of local SGD; a batch is all samples of a client, so that their order is nothing."""
WORK = (1.0, 2.5, 1.5, 2.0)
"""What each client's epochs are multiplied by where they are not the same."""
Samples = tuple[Tensor, Tensor]
"""Inputs [samples, features], which single precision holds exactly, and labels [samples]."""


class Network(nn.Module):
    """A base of a layer and tanh, and a linear head; float64."""

    def __init__(self, *, in_shape: tuple[int, ...] = (FEATURES,), num_classes: int = CLASSES) -> None:
        super().__init__()
        self.base = nn.Sequential(nn.Linear(in_shape[0], HIDDEN, dtype=torch.float64), nn.Tanh())
        self.head = nn.Linear(HIDDEN, num_classes, dtype=torch.float64)
        for i, own in enumerate(self.parameters()):
            own.data = waves(own.numel(), 0.7 + i).view_as(own) / 2

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.base(x)
        return features, self.head(features)


class Normed(Network):
    """With BatchNorm before tanh."""

    def __init__(self, *, in_shape: tuple[int, ...] = (FEATURES,), num_classes: int = CLASSES) -> None:
        super().__init__(in_shape=in_shape, num_classes=num_classes)
        first, tanh = self.base
        self.base = nn.Sequential()
        self.base.add_module("first", first)
        self.base.add_module("bn", nn.BatchNorm1d(HIDDEN, dtype=torch.float64))
        self.base.add_module("tanh", tanh)


class Plain(Network):
    """The network without its features."""

    def forward(self, x: Tensor) -> Any:
        return super().forward(x)[1]


class Fixed(Network):
    """Whose head stays as it is."""

    def __init__(self, *, in_shape: tuple[int, ...] = (FEATURES,), num_classes: int = CLASSES) -> None:
        super().__init__(in_shape=in_shape, num_classes=num_classes)
        self.head.requires_grad_(False)


class Logits(nn.Module):
    """The network as one that gives logits alone, and features where they are asked for, of inputs of any precision."""

    def __init__(self) -> None:
        super().__init__()
        self.network = Network()

    def forward(self, x: Tensor, get_features: bool = False) -> Tensor | tuple[Tensor, Tensor]:
        features, logits = self.network(x.double())
        return (logits, features) if get_features else logits


class Single(nn.Module):
    """Whose tensors have one number each."""

    def __init__(self, *, in_shape: tuple[int, ...] = (FEATURES,), num_classes: int = CLASSES) -> None:
        super().__init__()
        self.base = nn.ModuleList(nn.Linear(1, 1, dtype=torch.float64) for _ in range(in_shape[0]))
        self.head = nn.ModuleList(nn.Linear(1, 1, dtype=torch.float64) for _ in range(num_classes))
        for i, own in enumerate(self.parameters()):
            own.data = waves(1, 0.7 + i).view_as(own)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = torch.cat([layer(x[:, i : i + 1]) for i, layer in enumerate(self.base)], 1).tanh().cumsum(1)
        return features, torch.cat([layer(features[:, i : i + 1]) for i, layer in enumerate(self.head)], 1)


class FixedBase(Network):
    """Whose base stays as it is."""

    def __init__(self, *, in_shape: tuple[int, ...] = (FEATURES,), num_classes: int = CLASSES) -> None:
        super().__init__(in_shape=in_shape, num_classes=num_classes)
        self.base.requires_grad_(False)


def waves(count: int, start: float) -> Tensor:
    """Numbers in (-1, 1) without a pattern that any training could have by chance."""
    return torch.sin(torch.arange(count, dtype=torch.float64).square() * 0.37 + start)


def samples(client: int) -> Samples:
    """Of a client."""
    return _samples(client, SIZES[client])


def as_many(client: int) -> Samples:
    """Of a client that has as many as any other."""
    return _samples(client, SIZES[1])


def _samples(client: int, count: int) -> Samples:
    x = (waves(count * FEATURES, 2.0 * client) * 64).round() / 32
    labels = (torch.arange(count) * (2 * client + 3)) % (CLASSES if client == 0 else CLASSES - 1)
    return x.view(-1, FEATURES), labels


def alike(client: int) -> Samples:
    """Ten or twenty times the same, of a class of the client's own: any that are held out are as good as any others."""
    x, count = samples(client)[0], 10 + 10 * (client % 2)
    return x[:1].expand(count, -1), torch.full((count,), client)


def pairs(client: int) -> Samples:
    """As many of the same, of a class that another client has, too."""
    x, labels = alike(client)
    return x, labels % 2 * (CLASSES - 1)


def blind(client: int) -> Samples:
    """Of a client, the first feature being 0 with all."""
    x, labels = samples(client)
    return x * (torch.arange(FEATURES) > 0), labels


def prototype(label: int) -> Tensor:
    """The same for all samples of a class."""
    return (waves(FEATURES, 3.0 * label + 1) * 64).round() / 32


def one_class(client: int) -> Samples:
    """One of each class above the client's number, the others of this class, all prototypes."""
    labels = torch.arange(client, CLASSES)
    labels = torch.cat([labels, torch.full((SIZES[client] - len(labels),), client)])
    return torch.stack([prototype(int(label)) for label in labels]), labels
