"""One local step of all lanes: gradient, correction, penalty and SGD, vectorised over clients and compiled.

The loss sees all leaves of a model at once; whatever is coordinate-wise runs leaf by leaf, so that it fuses with the
update and no parameter vector is ever concatenated. Leaves are separate buffers and are written in place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.func import grad, vmap

from fl_ddp.compilation import compiled
from fl_ddp.protocol import Batch, Leaves, Tensors
from fl_ddp.samples import Normaliser

Split = dict[str, Tensor | Leaves]
"""Tensors by name, parameter vectors among them as leaves."""


class Objective(Hashable, Protocol):
    """What local training needs to know of a method (FedAvg's part for one client); hashable."""

    def leaves(self, vector: Tensor) -> Leaves:
        """Split a parameter vector [..., V] into leaves."""

    def gradient(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> tuple[Leaves, Tensor]:
        """Gradient of the loss in all leaves, and the loss []."""

    def correct(self, g: Tensor, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """Change one leaf's gradient."""

    def penalty(self, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """One leaf's share of a prior []."""


class Variant(NamedTuple):
    """What is compiled into a step, beside the objective."""

    dtype: torch.dtype
    momentum: bool
    weight_decay: bool
    bfloat16: bool
    compile: bool


class Rates(NamedTuple):
    """Hyper-parameters of SGD as tensors [], so that other values do not compile another step."""

    lr: Tensor
    momentum: Tensor
    weight_decay: Tensor


class Drawn(NamedTuple):
    """The samples of all lanes in one step, as they are stored: x [G, B, ...], y [G, B], mask [G, B], key [G]."""

    x: Tensor
    y: Tensor
    mask: Tensor
    key: Tensor


class State(NamedTuple):
    """What a step changes in place: theta and its momentum, leaves [G, ...], and the sum of losses so far [G]."""

    theta: Leaves
    momentum: Leaves
    loss: Tensor


Step = Callable[[State, Drawn, Normaliser, Split, Split, Rates], None]


def _of_leaf(tensors: Split, leaf: int) -> Tensors:
    return {name: t[leaf] if isinstance(t, tuple) else t for name, t in tensors.items()}


@lru_cache(maxsize=64)
def local_step(objective: Objective, variant: Variant, shapes: Hashable) -> Step:
    """The step of an objective, one compiled graph for all rounds.

    Args:
        objective: loss and its changes.
        variant: numerics.
        shapes: of all that is given to the step. Compiled steps check nothing when called, which would take longer than
            a small model's arithmetic; that the shapes are part of the key is what makes this safe.

    Returns:
        step(state, drawn, normaliser, server, memory [G, ...], rates); a lane whose whole mask is 0 stays as it is.
        State is written in place.
    """

    def one(
        theta: Leaves, momentum: Leaves, batch: Batch, server: Split, mine: Split, rates: Rates
    ) -> tuple[Leaves, Leaves, Tensor]:
        with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=variant.bfloat16):
            gradient, loss = objective.gradient(theta, batch, server, mine)  # type: ignore[arg-type]
        active = batch.mask.any()
        moved: list[Tensor] = []
        kept: list[Tensor] = []
        for i, (t, g) in enumerate(zip(theta, gradient, strict=True)):
            of_server, of_mine = _of_leaf(server, i), _of_leaf(mine, i)
            g = objective.correct(g, t, of_server, of_mine)
            g = g + grad(objective.penalty)(t, of_server, of_mine)
            if variant.weight_decay:
                g = g + rates.weight_decay * t
            if variant.momentum:
                g = rates.momentum * momentum[i] + g
                kept.append(g)
            moved.append(torch.where(active, t - rates.lr * g, t))
        return tuple(moved), tuple(kept), torch.where(active, loss, torch.zeros_like(loss))

    lanes = vmap(one, in_dims=(0, 0, 0, None, 0, None))

    def step(state: State, drawn: Drawn, normaliser: Normaliser, server: Split, mine: Split, rates: Rates) -> None:
        batch = Batch(normaliser.inputs(drawn.x, variant.dtype), *drawn[1:])
        moved, kept, loss = lanes(state.theta, state.momentum, batch, server, mine, rates)
        for old, new in zip(state.theta + state.momentum, moved + kept, strict=True):
            old.copy_(new)
        state.loss.add_(loss)

    return compiled(step) if variant.compile else step
