"""One local step of all lanes: gradient, correction, penalty and optimizer, vectorised over clients and compiled.

The loss sees all leaves of a model at once; whatever is coordinate-wise runs leaf by leaf, so that it fuses with the
update and no parameter vector is ever concatenated. Leaves are separate buffers and are written in place.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor
from torch.func import grad, vmap
from torch.utils._pytree import tree_map_only

from fl_ddp.compiler.compilation import compiled, layout, made_once
from fl_ddp.engine.augmentation import augmented
from fl_ddp.engine.choices import Augmentation, Convolution
from fl_ddp.engine.samples import Normaliser
from fl_ddp.errors import ConfigError
from fl_ddp.guards import of_one_client
from fl_ddp.guards.coefficients import attributes_of, with_coefficients
from fl_ddp.guards.meanings import in_words
from fl_ddp.guards.padding import look_at_loss
from fl_ddp.optimizers.rule import Optimizer, Rates
from fl_ddp.protocol import LANES, Batch, Leaves, Quadratic, Tensors, alike

Given = TypeVar("Given")
Split = dict[str, Tensor | Leaves]
"""Tensors by name, parameter vectors among them as leaves."""


STEPS = "steps"
"""Among what is carried of an optimizer, the number of its steps."""


class Objective(Hashable, Protocol):
    """What local training needs to know of a method (FedAvg's part for one client); hashable."""

    def leaves(self, vector: Tensor) -> Leaves:
        """Split a parameter vector [..., V] into leaves."""

    @property
    def running(self) -> tuple[int, ...]:
        """Leaves that are running statistics, which no step moves: gradient() gives their next values."""

    @property
    def leaves_beside(self) -> int:
        """How many of the last leaves are a model of their own that trains along, and is clipped by itself."""

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
    optimizer: Optimizer
    momentum: bool
    weight_decay: bool
    clip_norm: bool
    lr_of_lane: bool
    augment: tuple[Augmentation, ...]
    bfloat16: bool
    compile: bool
    goes_on: bool
    convolution: Convolution
    fixed: tuple[int, ...]

    @property
    def products(self) -> bool:
        """Whether a GPU's convolutions are matrix products."""
        return self.convolution == "auto"


class Drawn(NamedTuple):
    """The samples of all lanes in one step: x [G, B, ...], y [G, B, ...], mask [G, B], key [G].

    They are as they are stored, pixels maybe as numbers in [0, 1]; the step's number [] counts from 0.
    """

    x: Tensor
    y: Tensor
    mask: Tensor
    key: Tensor
    number: Tensor


class Walk(NamedTuple):
    """Where local training is: theta, what the optimizer remembers, and traces; leaves [G, ...], or of one lane."""

    theta: Leaves
    optimizer: dict[str, Leaves]
    trace: dict[str, Leaves]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All leaves, in one order."""
        both = (*self.optimizer.values(), *self.trace.values())
        return self.theta + tuple(leaf for leaves in both for leaf in leaves)


def cloned(given: Given) -> Given:
    """A nest of tensors in memory of its own, each lane's behind the one before."""
    copied: Given = tree_map_only(Tensor, partial(torch.clone, memory_format=torch.contiguous_format), given)
    return copied


class State(NamedTuple):
    """Where training is and the sum of its losses so far [G], which a step changes in place.

    Beside them the optimizer's earlier steps [G], where clients go on with it; else nothing.
    """

    walk: Walk
    loss: Tensor
    earlier: tuple[Tensor, ...] = ()

    @property
    def owned(self) -> State:
        """The same, with leaves in memory of their own, which a step may write."""
        return self._replace(walk=cloned(self.walk))


class Training(NamedTuple):
    """What all steps of a training are given.

    The state, which is written in place; the server's tensors, and what each client remembers [G, ...]; rates; labels
    that are told apart [C], or None; and the objective's coefficients [] by name.
    """

    state: State
    server: Split
    mine: Split
    rates: Rates
    allowed: Tensor | None
    coefficients: Tensors


class Steps(NamedTuple):
    """What each step of a training is given: rows [S, G, B] of samples, -1 where padded, and key [S, G] of its noise.

    Beside them its learning rates [S, G], where they change from step to step.
    """

    rows: Tensor
    key: Tensor
    lr: Tensor | None = None


Step = Callable[[Training, Drawn, Normaliser], None]


def joined(leaves: Leaves) -> Tensor:
    """Leaves [G, ...] as vectors [G, V]."""
    return torch.cat([leaf.reshape(len(leaf), -1) for leaf in leaves], 1)


def as_leaves(tensors: Tensors, objective: Objective, width: int) -> Split:
    """Parameter vectors among the tensors as contiguous leaves, all as objects of their own for the compiled step."""
    return {
        name: tuple(leaf.contiguous() for leaf in objective.leaves(t))
        if t.is_floating_point() and t.shape[-1:] == (width,)
        else t.contiguous().view_as(t)
        for name, t in tensors.items()
    }


def _of_leaf(tensors: Mapping[str, Tensor | Leaves], leaf: int) -> Tensors:
    return {name: t[leaf] if isinstance(t, tuple) else t for name, t in tensors.items()}


def _clipped(gradient: dict[int, Tensor], norm: Tensor, beside: int) -> dict[int, Tensor]:
    """All leaves of a gradient, shorter if their norm together is above one []; as torch's clip_grad_norm_.

    The last ones that are a model of their own beside the other are clipped by their own norm.
    """
    if beside:
        first = dict(list(gradient.items())[:-beside])
        last = {i: g for i, g in gradient.items() if i not in first}
        return _clipped(first, norm, 0) | _clipped(last, norm, 0)
    length = torch.stack([alike(g.square(), 0).sum() for g in gradient.values()]).sum().sqrt()
    scale = (norm / (length + 1e-6)).clamp_max(1)
    return {i: scale * g for i, g in gradient.items()}


@made_once
def local_step(objective: Objective, kind: StepKind, shapes: Hashable) -> Step:
    """The step of an objective, one compiled graph for all rounds.

    Args:
        objective: loss and its changes; its coefficients are the training's, whatever it has itself.
        kind: numerics.
        shapes: of all that is given to the step. Compiled steps check nothing when called, which would take longer than
            a small model's arithmetic; that the shapes are part of the key is what makes this safe.

    Returns:
        step(training, drawn, normaliser); a lane whose whole mask is 0 stays as it is. The state is written in place.
    """
    attributes = attributes_of(objective)
    views = vmap(partial(augmented, kinds=kind.augment))
    rates_of_lanes = Rates(0, None, None, None) if kind.lr_of_lane else None  # type: ignore[arg-type]

    def step(training: Training, drawn: Drawn, normaliser: Normaliser) -> None:
        state, server, mine, rates, allowed, coefficients = training
        given = with_coefficients(objective, attributes, coefficients)
        lanes = vmap(partial(_of_lane, given, kind), in_dims=(0, 0, LANES, None, None, 0, rates_of_lanes))
        x = views(drawn.x, drawn.key) if kind.augment else drawn.x
        batch = Batch(normaliser.inputs(x, kind.dtype), drawn.y, drawn.mask, drawn.key, allowed)
        end, loss = lanes(state.walk, state.earlier, batch, drawn.number, server, mine, rates)
        for old, new in zip(state.walk.tensors, end.tensors, strict=True):
            old.copy_(new)
        state.loss.add_(loss)

    return compiled(step, "the local step", products=kind.products) if kind.compile else step


def _of_lane(
    objective: Objective,
    kind: StepKind,
    walk: Walk,
    earlier: tuple[Tensor, ...],
    batch: Batch,
    number: Tensor,
    server: Split,
    mine: Split,
    rates: Rates,
) -> tuple[Walk, Tensor]:
    """One client after a step, and its loss."""
    with torch.autocast(batch.x.device.type, torch.bfloat16, enabled=kind.bfloat16):
        gradient, loss = of_one_client.gradient(objective.gradient, walk.theta)(walk.theta, batch, server, mine)
    active, count = batch.mask.any(), sum(earlier, number)
    trained = [i for i in range(len(walk.theta)) if i not in {*objective.running, *kind.fixed}]
    pulled = {
        i: _direction(objective, gradient[i], walk.theta[i], _of_leaf(server, i), _of_leaf(mine, i)) for i in trained
    }
    if kind.clip_norm:
        pulled = _clipped(pulled, rates.clip_norm, objective.leaves_beside)
    ends: list[tuple[Tensor, Tensors, Tensors]] = []
    for i, (theta, g) in enumerate(zip(walk.theta, gradient, strict=True)):
        before, trace = _of_leaf(walk.optimizer, i), _of_leaf(walk.trace, i)
        if i in objective.running:
            new, state = g, before  # a batch without samples has left it as it was
        elif i in kind.fixed:
            new, state = theta, before
        else:
            received, kept = _of_leaf(server, i), _of_leaf(mine, i)
            new, state = _moved(objective, kind, theta, pulled[i], before, count, received, kept, rates)
            new = torch.where(active, new, theta)
            if trace:
                after = of_one_client.trace(objective.track, trace)(trace, theta, new, g, number)
                trace = {name: torch.where(active, after[name], trace[name]) for name in after}
            if kind.goes_on:
                state = {name: torch.where(active, state[name], before[name]) for name in before}
        ends.append((new, state, trace))
    remembered = {name: tuple(state[name] for _, state, _ in ends) for name in walk.optimizer}
    tracked = {name: tuple(trace[name] for *_, trace in ends) for name in walk.trace}
    return Walk(tuple(new for new, *_ in ends), remembered, tracked), torch.where(active, loss, torch.zeros_like(loss))


def _direction(objective: Objective, g: Tensor, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
    """One leaf's gradient with all that the method adds to the loss's."""
    d = of_one_client.leaf(objective.correct, g)(g, theta, server, mine)
    d = d + grad(of_one_client.number(objective.penalty))(theta, server, mine)
    for prior in of_one_client.priors(objective.priors)(server, mine):
        d = prior.added_to(d, theta)
    return d


def _moved(
    objective: Objective,
    kind: StepKind,
    theta: Tensor,
    d: Tensor,
    state: Tensors,
    count: Tensor,
    server: Tensors,
    mine: Tensors,
    rates: Rates,
) -> tuple[Tensor, Tensors]:
    """One leaf after a step along a direction, and what the optimizer remembers of it then."""
    if kind.weight_decay:
        d = d + rates.weight_decay * theta
    new, after = kind.optimizer.step(theta, d, state, count, rates)
    for prior in objective.priors(server, mine):
        new = prior.solved_from(new, kind.optimizer.reach(state, count, rates))
    return of_one_client.leaf(objective.project, theta)(new, theta, server, mine), after


def first_state(
    objective: Objective,
    kind: StepKind,
    lanes: int,
    start: Tensor,
    trace: Mapping[str, Tensor],
    earlier: Tensors | None,
    statistics: Tensor | None,
) -> State:
    """Where training begins, in tensors that may share memory, as lanes do that begin alike.

    Args:
        objective: loss and its changes.
        kind: numerics.
        lanes: G.
        start: [V] or [G, V] parameters.
        trace: [V] or [G, V] vectors, as they begin.
        earlier: [G, V] what the clients' optimizers remember, and the number of their steps [G], if they go on.
        statistics: [G, S] running statistics that the clients keep to themselves, if they do.

    Raises:
        ConfigError: the optimizers remember vectors of another length.
    """
    size = start.shape[-1]

    def laned(vector: Tensor) -> Leaves:
        return objective.leaves(vector.expand(lanes, size))

    theta = list(laned(start))
    if statistics is not None and (running := objective.running):
        parts = torch.split(statistics, [theta[i][0].numel() for i in running], 1)
        for i, kept in zip(running, parts, strict=True):
            theta[i] = kept.view_as(theta[i])
    names, first = kind.optimizer.remembers(momentum=kind.momentum), start.new_full((), kind.optimizer.begins_with)
    remembered = {name: tuple(first.expand(leaf.shape) for leaf in theta) for name in names}
    for name, vector in (earlier or {}).items():
        if name == STEPS:
            continue
        if vector.shape[1] != size:
            what = f"true, but the method trains a vector of {size}, not the model's {vector.shape[1]}"
            raise ConfigError("--optimizer.keep", what, "false")
        remembered[name] = objective.leaves(vector)
    walk = Walk(tuple(theta), remembered, {name: laned(t) for name, t in trace.items()})
    return State(walk, start.new_zeros(lanes), (earlier[STEPS],) if earlier else ())


def try_step(objective: Objective, kind: StepKind, training: Training, drawn: Drawn, normaliser: Normaliser) -> None:
    """Take a step of a user's objective on a copy of two lanes, uncompiled: what is wrong there is told with its line.

    Raises:
        ConfigError: there is something, or the loss counts rows of padding.
    """

    def few(laned: Given) -> Given:
        first: Given = tree_map_only(Tensor, lambda t: t[:2], laned)
        return cloned(first)

    state, mine, server = few(training.state), few(training.mine), training.server
    lr = few(training.rates.lr) if training.rates.lr.ndim else training.rates.lr
    drawn = few(drawn._replace(number=drawn.number[None]))._replace(number=drawn.number)
    few_lanes = training._replace(state=state, mine=mine, rates=training.rates._replace(lr=lr))
    given = (few_lanes, drawn, normaliser)
    with in_words(type(objective), server, mine):
        local_step(objective, kind._replace(compile=False), layout(given))(*given)
    batch = Batch(normaliser.inputs(drawn.x, kind.dtype), drawn.y, drawn.mask, drawn.key, training.allowed)
    in_a_step = with_coefficients(objective, attributes_of(objective), training.coefficients)
    look_at_loss(in_a_step, state.walk.theta, server, mine, batch)
