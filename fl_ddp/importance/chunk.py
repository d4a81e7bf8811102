"""One chunk of an importance pass over all lanes: per-sample gradients, powers, sums; compiled."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from itertools import chain
from typing import NamedTuple, TypeVar, cast

import torch
from torch import Tensor
from torch.func import grad, vjp, vmap

from fl_ddp.compiler.compilation import compiled, layout, made_once
from fl_ddp.engine.group import Group
from fl_ddp.engine.samples import Normaliser
from fl_ddp.engine.seeds import uniform
from fl_ddp.importance.coverage import Coverage
from fl_ddp.importance.sensitivity import Sensitivity
from fl_ddp.importance.taps import Part, powered, tapped
from fl_ddp.losses.cross_entropy import among
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Leaves, alike


class Chunk(NamedTuple):
    """Samples of all lanes, as they are stored: x [G, B, ...], y [G, B], key [G].

    Attributes:
        weight: [G, B] of each sample's gradient: 1, or a part of the mean of its batch; 0 where padded.
    """

    x: Tensor
    y: Tensor
    weight: Tensor
    key: Tensor


Total = TypeVar("Total", Tensor, Leaves)
Ended = TypeVar("Ended")

NormStep = Callable[[Tensor, Leaves, Chunk, Normaliser, Tensor | None], None]
SumStep = Callable[[Leaves, Leaves, Chunk, Normaliser, Tensor, Tensor | None], None]


@made_once
def sum_step(
    model: FlatModel,
    sensitivity: Sensitivity,
    covered: Coverage,
    compile: bool,
    products: bool | None,
    shapes: Hashable,
) -> SumStep:
    """One chunk's powers of gradients, added to total in place; shapes are part of the key as in local_step.

    It is given the numbers of the classes that are to count, or of the one draw of a class that it is.
    """

    def of_lane(theta: Leaves, chunk: Chunk, classes: Tensor, allowed: Tensor | None) -> dict[int, Part]:
        def cotangents(logits: Tensor, y: Tensor, weight: Tensor, u: Tensor) -> Tensor:
            z = among(logits, allowed)
            found = sensitivity.cotangents(model.criterion, z, y, u, classes) * weight[:, None]
            return found if allowed is None else torch.where(allowed, found, 0)

        given = (chunk.y, chunk.weight, uniform(chunk.key, classes[0], chunk.weight.shape))
        if sensitivity.batch_mean and not sensitivity.over_classes:
            logits, pull = _vjp(lambda leaves: model.logits(leaves, chunk.x), theta)
            (mean,) = pull(cotangents(logits, *given)[0])
            return {i: powered(g, sensitivity.power) for i, g in enumerate(mean) if i not in model.running}

        def of_sample(x: Tensor, *given: Tensor) -> Leaves:
            return _of_sample(model, theta, x, lambda z: cotangents(z, *(t[None] for t in given)), covered.others)

        found = tapped(model, theta, chunk.x, lambda z: cotangents(z, *given), covered.calls, sensitivity.power)
        if covered.others:
            others = vmap(of_sample)(chunk.x, *given)
            sums = (powered(g, sensitivity.power).sum((0, 1)) for g in others)
            found |= zip(covered.others, sums, strict=True)
        return found

    lanes = vmap(of_lane, in_dims=(0, 0, None, None))

    def step(
        total: Leaves,
        theta: Leaves,
        chunk: Chunk,
        normaliser: Normaliser,
        classes: Tensor,
        allowed: Tensor | None,
    ) -> None:
        chunk = chunk._replace(x=normaliser.inputs(chunk.x, model.dtype))
        for leaf, part in lanes(theta, chunk, classes, allowed).items():
            sum_ = part if isinstance(part, Tensor) else part[0] @ part[1]
            total[leaf].add_(sum_.view_as(total[leaf]))

    return compiled(step, "the importance step", products=products) if compile else step


def added_up(
    group: Group,
    make: Callable[[Hashable], Callable[..., None]],
    total: Total,
    chunks: Iterator[tuple[object, ...]],
    end: Callable[[Total], Ended],
) -> Ended:
    """What is made of a total to which a step has added one chunk after another, recorded once where that can be.

    Args:
        group: whose chunks they are.
        make: the step, of the layout of all that it is given.
        total: as it begins.
        chunks: all that the step is given for each, the total first.
        end: makes something of the total in tensors of its own.
    """
    work = group.workplace
    if (first := next(chunks, None)) is None:
        return end(total)
    step, chunks = make(layout(first)), chain([first], chunks)
    made = work.recordings
    if made and (found := made.call(step, first, chunks, work.check, end, "the importance step")) is not None:
        return found
    del first  # and the stack that it is a part of
    for given in chunks:
        work.check()
        step(*given)
    return end(total)


def _vjp(function: Callable[[Leaves], Tensor], leaves: Leaves) -> tuple[Tensor, Callable[[Tensor], tuple[Leaves]]]:
    """A function's value, and its gradient's products."""
    return cast("tuple[Tensor, Callable[[Tensor], tuple[Leaves]]]", vjp(function, leaves))


def _of_sample(
    model: FlatModel, theta: Leaves, x: Tensor, cotangents: Callable[[Tensor], Tensor], chosen: tuple[int, ...]
) -> Leaves:
    """Gradients [K, *shape] of one sample's K losses in chosen leaves, whatever uses them.

    Args:
        model: in evaluation mode.
        theta: one client's leaves.
        x: [...] input.
        cotangents: gives, for logits [1, C], the gradients [K, 1, C] of the losses in them.
        chosen: leaves.
    """

    def forward(leaves: Leaves) -> Tensor:
        replaced = list(theta)
        for i, leaf in zip(chosen, leaves, strict=True):
            replaced[i] = leaf
        return model.logits(tuple(replaced), x[None])

    logits, pull = _vjp(forward, tuple(theta[i] for i in chosen))
    (found,) = vmap(pull)(cotangents(logits))
    return found


@made_once
def norm_step(model: FlatModel, compile: bool, shapes: Hashable) -> NormStep:
    """One chunk's gradient norms, added to total in place; shapes are part of the key as in local_step."""

    def norm(theta: Leaves, x: Tensor, y: Tensor, allowed: Tensor | None) -> Tensor:
        g = grad(lambda leaves: model.nll(leaves, x[None], y[None], allowed)[0])(theta)
        squares = [alike(leaf.square(), 0) for i, leaf in enumerate(g) if i not in model.running]
        return torch.stack([square.sum() for square in squares]).sum().sqrt()

    lanes = vmap(vmap(norm, in_dims=(None, 0, 0, None)), in_dims=(0, 0, 0, None))

    def step(total: Tensor, theta: Leaves, chunk: Chunk, normaliser: Normaliser, allowed: Tensor | None) -> None:
        norms = lanes(theta, normaliser.inputs(chunk.x, model.dtype), chunk.y, allowed)
        total.add_((norms * chunk.weight).sum(1))

    return compiled(step, "the importance step") if compile else step
