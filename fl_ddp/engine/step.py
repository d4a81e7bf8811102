"""One local step of all lanes: gradient, correction, penalty and SGD, vectorised over clients and compiled.

The loss sees all leaves of a model at once; whatever is coordinate-wise runs leaf by leaf, so that it fuses with the
update and no parameter vector is ever concatenated. Leaves are separate buffers and are written in place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import lru_cache
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.func import grad, vmap

from fl_ddp.engine.compilation import compiled
from fl_ddp.engine.samples import Normaliser
from fl_ddp.protocol import Batch, Leaves, Tensors

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

    def quadratic(self, server: Tensors, mine: Tensors) -> tuple[Tensor, Tensor] | None:
        """One leaf's curvature and anchor of a prior 1/2 sum curvature (theta - anchor)^2, or None."""

    @property
    def proximal(self) -> bool:
        """Whether a step is exact in the quadratic prior, instead of following its gradient."""

    def track(self, trace: Tensors, old: Tensor, new: Tensor, g: Tensor, step: Tensor) -> Tensors:
        """One leaf's trace after a step."""


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
    """The samples of all lanes in one step, as they are stored: x [G, B, ...], y [G, B], mask [G, B], key [G].

    Its number [] counts from 0.
    """

    x: Tensor
    y: Tensor
    mask: Tensor
    key: Tensor
    number: Tensor


class State(NamedTuple):
    """What a step changes in place: theta, its momentum and traces, leaves [G, ...], and the losses so far [G]."""

    theta: Leaves
    momentum: Leaves
    trace: dict[str, Leaves]
    loss: Tensor


Step = Callable[[State, Drawn, Normaliser, Split, Split, Rates], None]


def _of_leaf(tensors: Mapping[str, Tensor | Leaves], leaf: int) -> Tensors:
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
        theta: Leaves,
        momentum: Leaves,
        trace: dict[str, Leaves],
        batch: Batch,
        number: Tensor,
        server: Split,
        mine: Split,
        rates: Rates,
    ) -> tuple[Leaves, Leaves, dict[str, Leaves], Tensor]:
        with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=variant.bfloat16):
            gradient, loss = objective.gradient(theta, batch, server, mine)  # type: ignore[arg-type]
        active = batch.mask.any()
        moved: list[Tensor] = []
        kept: list[Tensor] = []
        tracked: dict[str, list[Tensor]] = {name: [] for name in trace}
        for i, (t, loss_gradient) in enumerate(zip(theta, gradient, strict=True)):
            of_server, of_mine = _of_leaf(server, i), _of_leaf(mine, i)
            g = objective.correct(loss_gradient, t, of_server, of_mine)
            g = g + grad(objective.penalty)(t, of_server, of_mine)
            curvature, anchor = objective.quadratic(of_server, of_mine) or (None, None)
            if curvature is not None and anchor is not None and not objective.proximal:
                g = g + curvature * (t - anchor)
            if variant.weight_decay:
                g = g + rates.weight_decay * t
            if variant.momentum:
                g = rates.momentum * momentum[i] + g
                kept.append(g)
            new = t - rates.lr * g
            if curvature is not None and anchor is not None and objective.proximal:
                stiff = rates.lr * curvature
                new = (new + stiff * anchor) / (1 + stiff)
            moved.append(torch.where(active, new, t))
            if trace:
                before = _of_leaf(trace, i)
                for name, after in objective.track(before, t, moved[i], loss_gradient, number).items():
                    tracked[name].append(torch.where(active, after, before[name]))
        traces = {name: tuple(leaves) for name, leaves in tracked.items()}
        return tuple(moved), tuple(kept), traces, torch.where(active, loss, torch.zeros_like(loss))

    lanes = vmap(one, in_dims=(0, 0, 0, 0, None, None, 0, None))

    def step(state: State, drawn: Drawn, normaliser: Normaliser, server: Split, mine: Split, rates: Rates) -> None:
        batch = Batch(normaliser.inputs(drawn.x, variant.dtype), drawn.y, drawn.mask, drawn.key)
        moved, kept, traces, loss = lanes(
            state.theta, state.momentum, state.trace, batch, drawn.number, server, mine, rates
        )
        changed = moved + kept + tuple(leaf for leaves in traces.values() for leaf in leaves)
        buffers = state.theta + state.momentum + tuple(leaf for leaves in state.trace.values() for leaf in leaves)
        for old, new in zip(buffers, changed, strict=True):
            old.copy_(new)
        state.loss.add_(loss)

    return compiled(step) if variant.compile else step
