"""A model's parameters by name, with arithmetic that reads like the papers'."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

import torch
from torch import Tensor


class Parameters(dict[str, Tensor]):
    """A tensor for each of a model's parameters; all arithmetic is coordinate by coordinate."""

    def each(self, function: Callable[..., Tensor], *others: Parameters) -> Parameters:
        """A function of each tensor, and of the tensors of its name in others."""
        return Parameters({name: function(own, *(other[name] for other in others)) for name, own in self.items()})

    def __add__(self, other: Parameters | float) -> Parameters:
        return self.each(torch.add, self._like(other))

    def __sub__(self, other: Parameters | float) -> Parameters:
        return self.each(torch.sub, self._like(other))

    def __mul__(self, other: Parameters | float) -> Parameters:
        return self.each(torch.mul, self._like(other))

    def __truediv__(self, other: Parameters | float) -> Parameters:
        return self.each(torch.div, self._like(other))

    __radd__ = __add__
    __rmul__ = __mul__

    def squared(self) -> Parameters:
        """The square of each coordinate."""
        return self * self

    def absolute(self) -> Parameters:
        """The magnitude of each coordinate."""
        return self.each(torch.abs)

    def positive(self) -> Parameters:
        """Each coordinate, 0 where it is negative."""
        return self.each(torch.relu)

    def filled(self, value: float) -> Parameters:
        """As many coordinates, all of one value."""
        return self.each(lambda own: torch.full_like(own, value))

    def total(self) -> float:
        """The sum of all coordinates."""
        return sum(float(own.sum()) for own in self.values())

    def largest(self) -> float:
        """The largest coordinate."""
        return max(float(own.max()) for own in self.values())

    def count(self) -> int:
        """P, the number of coordinates."""
        return sum(own.numel() for own in self.values())

    def only(self, names: Collection[str]) -> Parameters:
        """The tensors of these names, in the order in which they are here."""
        return Parameters({name: own for name, own in self.items() if name in names})

    def having(self, part: Parameters) -> Parameters:
        """The same with some of the tensors replaced."""
        return Parameters({name: part.get(name, own) for name, own in self.items()})

    def flat(self) -> Tensor:
        """All coordinates in one vector."""
        return torch.cat([own.flatten() for own in self.values()])

    def shaped(self, vector: Tensor) -> Parameters:
        """The coordinates of a vector as tensors like these."""
        parts = torch.split(vector, [own.numel() for own in self.values()])
        return Parameters({name: part.view(own.shape) for (name, own), part in zip(self.items(), parts, strict=True)})

    def _like(self, other: Parameters | float) -> Parameters:
        return other if isinstance(other, Parameters) else self.filled(other)


class InTraining(Parameters):
    """Parameters of a model in training, whose BatchNorm takes the statistics of each batch and moves its own."""


def alone(tensor: Tensor) -> Parameters:
    """A tensor that has no name."""
    return Parameters({"": tensor})


def summed(terms: Iterable[Parameters]) -> Parameters:
    """The sum of at least one."""
    first, *others = terms
    for other in others:
        first = first + other
    return first
