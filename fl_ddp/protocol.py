"""The values that pass between a federated method and the engine.

G is the number of lanes (clients side by side), P of parameters, B of samples in a batch.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

Tensors = dict[str, Tensor]
Indices = npt.NDArray[np.int64]
"""Which samples, or which clients; on the host."""
Counts = npt.NDArray[np.int64]
"""How many of them."""
Factors = npt.NDArray[np.float64]
"""What something is multiplied by for each; on the host."""
Numbers = npt.NDArray[np.float32]
"""Targets that are no classes, [N, C]."""
Inputs = npt.NDArray[np.uint8] | npt.NDArray[np.float32] | npt.NDArray[np.signedinteger]
"""Samples without their labels, as a data source has them: pixels, features or tokens."""
Leaves = tuple[Tensor, ...]
"""A parameter vector split into the model's tensors, one per layer weight or bias."""


Origin = Literal["train", "test"]
"""Of which set a client's own test samples are."""


Targets = Literal["classes", "numbers", "binary"]
"""What samples have beside their inputs: the number of a class [N] int64, numbers [N, C] float32, or 0 and 1 alone."""


class Owners(NamedTuple):
    """Whose each sample is, as the data say it.

    Attributes:
        names: of the clients, each once, in their order.
        train: [N] client of each training sample, its place among the names; -1 where the data do not say it.
        test: [M] of each test sample; None where the data say it of none.
    """

    names: tuple[str, ...]
    train: Indices
    test: Indices | None = None


OF_OPTIMIZER = "optimizer_"
"""How names in a client's memory begin that are of its optimizer's."""
OF_STATISTICS = "running_statistics"
"""Name in a client's memory of its own ones of BatchNorm."""


@dataclass(frozen=True)
class Round:
    """A round and its place in the run.

    Attributes:
        index: of it, from 0.
        previous: the last round before it in which somebody trained; -1 if there was none.
        ends_task: whether nobody trains in its task after it, and another task follows; so it may be told again in
            rounds without clients, in which a method only measures.
        task: of it, from 0.
    """

    index: int
    previous: int
    ends_task: bool
    task: int


class Batch(NamedTuple):
    """One client's samples in one local step: x [B, ...], y [B], mask [B] (0 where padded), key [] of randomness.

    They are classified among the labels that are allowed [C] bool; None is all. Where targets are numbers y is [B, C].
    """

    x: Tensor
    y: Tensor
    mask: Tensor
    key: Tensor
    allowed: Tensor | None = None


LANES = Batch(0, 0, 0, 0, None)  # type: ignore[arg-type]
"""Where the batches of lanes side by side have their lanes, as vmap's in_dims."""


class Trained(NamedTuple):
    """The result of local training: theta [G, V], mean loss of a client's steps [G], what was tracked [G, V] each."""

    theta: Tensor
    loss: Tensor
    trace: Tensors


class Quadratic(NamedTuple):
    """A prior 1/2 sum curvature (theta - anchor)^2 on one leaf.

    Attributes:
        curvature: of each coordinate, or one for all; not negative.
        anchor: where the prior is least.
        exact: whether a local step solves the prior's part of it exactly (proximal), which is stable for any curvature;
            if not, the step follows the prior's gradient and diverges where lr times the curvature exceeds 2.
    """

    curvature: Tensor
    anchor: Tensor
    exact: bool = False

    def added_to(self, g: Tensor, theta: Tensor) -> Tensor:
        """A gradient at theta with the prior's own, if steps follow it."""
        return g if self.exact else g + self.curvature * (theta - self.anchor)

    def solved_from(self, theta: Tensor, lr: Tensor) -> Tensor:
        """The minimum over x of 1/2 (x - theta)^2 + lr prior(x), if steps solve it: theta after a step without it."""
        if not self.exact:
            return theta
        stiff = lr * self.curvature
        return (theta + stiff * self.anchor) / (1 + stiff)


@dataclass(frozen=True)
class Term:
    """A client's part of a sum over the cohort: weight * (value - minus), taken in float64 inside the exact sum.

    Attributes:
        value: [G, ...].
        minus: [...] or [G, ...], or nothing to subtract.
        weight: [G] or [G, ...], 1 if not given.
    """

    value: Tensor
    minus: Tensor | None = None
    weight: Tensor | None = None


@dataclass(frozen=True)
class Upload:
    """What a group of clients hands over after local training.

    Attributes:
        sums: of the cohort, its clients' parts of them.
        theta: the clients' own models after local training [G, V], as the method's predict() takes them.
        memory: what stays with the client until it next takes part, [G, ...].
        sent: what a client would put on the wire, [G, ...], if not its parts of the sums and its rows themselves.
        rows: what the server sees of each client for itself, [G, ...].
    """

    sums: dict[str, Tensor | Term]
    theta: Tensor
    memory: Tensors = field(default_factory=dict)
    sent: Mapping[str, Tensor | Term] | None = None
    rows: Tensors = field(default_factory=dict)

    @property
    def on_the_wire(self) -> Mapping[str, Tensor | Term]:
        """What a client sends; a row may have a sum's name."""
        rows = {f"row {name}": t for name, t in self.rows.items()}
        return {**self.sums, **rows} if self.sent is None else self.sent


class Total(NamedTuple):
    """What a round's clients have handed over, equal on every rank.

    Attributes:
        sums: over the cohort, float64.
        rows: of its clients [cohort, ...], in the order of Info.cohort.
        numbers: the sums that are numbers [], on the host.
    """

    sums: Tensors
    rows: Mapping[str, Tensor] = MappingProxyType({})
    numbers: Mapping[str, float] = MappingProxyType({})

    def ratio(self, over: str, under: str) -> float | None:
        """One sum [] divided by another; None where there is none to divide, or nothing to divide by."""
        there = over in self.numbers and under in self.numbers and self.numbers[under] > 0
        return self.numbers[over] / self.numbers[under] if there else None

    def means(self, names: Sequence[str]) -> dict[str, float]:
        """Means over the clients of the numbers that they report; without those that nobody has a weight in."""
        found = {name: self.ratio(name, weight_of(name)) for name in names}
        return {name: mean for name, mean in found.items() if mean is not None}


@dataclass(frozen=True)
class Info:
    """The round a server update belongs to.

    Attributes:
        index: of the round, from 0.
        cohort: ids of its clients [cohort], ascending.
        num_clients: of the whole run, enrolled or not.
        key: [] of what the server draws in this round, with uniform() or normal(); the same on every rank.
        task: of the round, from 0.
    """

    index: int
    cohort: Tensor
    num_clients: int
    key: Tensor
    task: int = 0


def alike(values: Tensor, start: int = -1) -> Tensor:
    """Numbers [..., N] whose rows are summed in one order wherever they lie; on a GPU a copy with zeros behind each.

    torch's kernel sums apart what lies before a multiple of four numbers in memory, and in other company a client's row
    lies elsewhere. Compiled kernels do not.

    Args:
        values: what is to be summed over its last dimension, or from `start` on.
        start: the first dimension that makes up a row.
    """
    if not values.is_cuda or torch.compiler.is_compiling():
        return values
    rows = values.flatten(start)
    return torch.nn.functional.pad(rows, (0, -rows.shape[-1] % 4)).clone(memory_format=torch.contiguous_format)


def weight_of(name: str) -> str:
    """Name of the sum of the weights with which clients report a number of this name."""
    return f"weight of {name}"


def listed(names: Collection[str]) -> str:
    """Names in their order, for messages."""
    return ", ".join(sorted(map(str, names))) or "nothing"


def form_of(given: object) -> str:
    """A tensor's type and shape, for messages; of anything else, what it is."""
    if not isinstance(given, Tensor):
        return type(given).__name__
    return f"{str(given.dtype).removeprefix('torch.')} {list(given.shape)}"
