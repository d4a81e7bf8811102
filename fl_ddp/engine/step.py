"""One local step of all lanes: gradient, correction, penalty and SGD, vectorised over clients and compiled.

The loss sees all leaves of a model at once; whatever is coordinate-wise runs leaf by leaf, so that it fuses with the
update and no parameter vector is ever concatenated. Leaves are separate buffers and are written in place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch.func import grad, vmap

from fl_ddp.engine.compilation import compiled, made_once
from fl_ddp.engine.samples import Normaliser
from fl_ddp.errors import RunError, place_of_code
from fl_ddp.protocol import LANES, Batch, Leaves, Quadratic, Tensors

Split = dict[str, Tensor | Leaves]
"""Tensors by name, parameter vectors among them as leaves."""


class Objective(Hashable, Protocol):
    """What local training needs to know of a method (FedAvg's part for one client); hashable."""

    def leaves(self, vector: Tensor) -> Leaves:
        """Split a parameter vector [..., V] into leaves."""

    @property
    def running(self) -> tuple[int, ...]:
        """Leaves that are running statistics, which no step moves: gradient() gives their next values."""

    def gradient(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> tuple[Leaves, Tensor]:
        """Gradient of the loss in all leaves, next values in place of running statistics; and the loss []."""

    def correct(self, g: Tensor, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """Change one leaf's gradient."""

    def penalty(self, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """One leaf's share of a prior []."""

    def priors(self, server: Tensors, mine: Tensors) -> tuple[Quadratic, ...]:
        """Quadratic priors of one leaf."""

    def project(self, new: Tensor, old: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """Where one leaf may be after a step from old to new."""

    def track(self, trace: Tensors, old: Tensor, new: Tensor, g: Tensor, step: Tensor) -> Tensors:
        """One leaf's trace after a step."""


class StepKind(NamedTuple):
    """What is compiled into a step, beside the objective."""

    dtype: torch.dtype
    momentum: bool
    weight_decay: bool
    bfloat16: bool
    compile: bool
    keeps_momentum: bool = False


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


class Walk(NamedTuple):
    """Where local training is: theta, its momentum if there is one, and traces; leaves [G, ...], or of one lane."""

    theta: Leaves
    momentum: Leaves
    trace: dict[str, Leaves]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All leaves, in one order."""
        return self.theta + self.momentum + tuple(leaf for leaves in self.trace.values() for leaf in leaves)


class State(NamedTuple):
    """What a step changes in place: where training is, and the sum of its losses so far [G]."""

    walk: Walk
    loss: Tensor


Step = Callable[[State, Drawn, Normaliser, Split, Split, Rates, Tensor | None], None]


def _of_leaf(tensors: Mapping[str, Tensor | Leaves], leaf: int) -> Tensors:
    return {name: t[leaf] if isinstance(t, tuple) else t for name, t in tensors.items()}


def scalar(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A method's loss or penalty, whose gradient is taken: refuses what is no number []."""

    def checked(*args: object) -> Tensor:
        value = function(*args)
        if value.ndim:
            code = function.__func__.__code__  # type: ignore[attr-defined]
            shape = list(value.shape)
            raise RunError(f"{place_of_code(code)}: {code.co_name} gives a tensor {shape} for one client; accepted: []")
        return value

    return checked


@made_once
def local_step(objective: Objective, kind: StepKind, shapes: Hashable) -> Step:
    """The step of an objective, one compiled graph for all rounds.

    Args:
        objective: loss and its changes.
        kind: numerics.
        shapes: of all that is given to the step. Compiled steps check nothing when called, which would take longer than
            a small model's arithmetic; that the shapes are part of the key is what makes this safe.

    Returns:
        step(state, drawn, normaliser, server, memory [G, ...], rates, allowed [C] or None); a lane whose whole mask is
        0 stays as it is. State is written in place.
    """

    def of_leaf(
        theta: Tensor, momentum: Tensor | None, g: Tensor, server: Tensors, mine: Tensors, rates: Rates
    ) -> tuple[Tensor, Tensor]:
        """One leaf after a step along the gradient of the loss, and the direction that was taken."""
        d = objective.correct(g, theta, server, mine)
        d = d + grad(scalar(objective.penalty))(theta, server, mine)
        priors = objective.priors(server, mine)
        for prior in priors:
            d = prior.added_to(d, theta)
        if kind.weight_decay:
            d = d + rates.weight_decay * theta
        if momentum is not None:
            d = rates.momentum * momentum + d
        moved = theta - rates.lr * d
        for prior in priors:
            moved = prior.solved_from(moved, rates.lr)
        return objective.project(moved, theta, server, mine), d

    def of_lane(
        walk: Walk, batch: Batch, number: Tensor, server: Split, mine: Split, rates: Rates
    ) -> tuple[Walk, Tensor]:
        """One client after a step, and its loss."""
        with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=kind.bfloat16):
            gradient, loss = objective.gradient(walk.theta, batch, server, mine)  # type: ignore[arg-type]
        active = batch.mask.any()
        moved: list[Tensor] = []
        directions: list[Tensor] = []
        tracked: dict[str, list[Tensor]] = {name: [] for name in walk.trace}
        for i, (theta, g) in enumerate(zip(walk.theta, gradient, strict=True)):
            momentum = walk.momentum[i] if kind.momentum else None
            if i in objective.running:
                moved.append(g)  # a batch without samples has left it as it was
                directions.append(torch.zeros_like(theta))
                for name, leaves in walk.trace.items():
                    tracked[name].append(leaves[i])
                continue
            new, direction = of_leaf(theta, momentum, g, _of_leaf(server, i), _of_leaf(mine, i), rates)
            if momentum is not None and kind.keeps_momentum:
                direction = torch.where(active, direction, momentum)
            directions.append(direction)
            moved.append(torch.where(active, new, theta))
            if walk.trace:
                before = _of_leaf(walk.trace, i)
                for name, after in objective.track(before, theta, moved[i], g, number).items():
                    tracked[name].append(torch.where(active, after, before[name]))
        trace = {name: tuple(leaves) for name, leaves in tracked.items()}
        end = Walk(tuple(moved), tuple(directions) if kind.momentum else (), trace)
        return end, torch.where(active, loss, torch.zeros_like(loss))

    lanes = vmap(of_lane, in_dims=(0, LANES, None, None, 0, None))

    def step(
        state: State,
        drawn: Drawn,
        normaliser: Normaliser,
        server: Split,
        mine: Split,
        rates: Rates,
        allowed: Tensor | None,
    ) -> None:
        batch = Batch(normaliser.inputs(drawn.x, kind.dtype), drawn.y, drawn.mask, drawn.key, allowed)
        end, loss = lanes(state.walk, batch, drawn.number, server, mine, rates)
        for old, new in zip(state.walk.tensors, end.tensors, strict=True):
            old.copy_(new)
        state.loss.add_(loss)

    return compiled(step, "the local step") if kind.compile else step
