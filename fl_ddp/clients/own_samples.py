"""The samples of a group's clients one by one: their labels, some of them by class, and functions of each.

Lists are as long as the largest client of the run has samples, N, in every group: a sum over a longer padding may have
other bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, vmap

from fl_ddp.engine.group import Group
from fl_ddp.engine.lanes import by_lane
from fl_ddp.losses.cross_entropy import one_hot
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import LANES, Batch, Tensors

AT_ONCE = 100
"""Samples of a client in one call of a function; it orders sums, so it is part of the results."""

OfSamples = Callable[[Tensor, Batch], Tensors]
"""What a function of one client's theta [V] and a batch gives by name."""


def labels(group: Group) -> Tensor:
    """The labels [G, N] of each client's samples in their order; -1 behind its last one."""
    return torch.where(group.positions >= 0, group.workplace.samples.y[group.positions.clamp_min(0)], -1)


def class_counts(group: Group, num_classes: int) -> Tensor:
    """Numbers [G, C] of each client's samples by label."""
    return one_hot(labels(group), num_classes).sum(1).to(group.n)


def task_classes(group: Group) -> Tensor:
    """Whether training samples of the task have each label [C], whoever has them; a task is told with its classes."""
    return group.workplace.classes


def best_of_class(group: Group, score: Tensor, num_classes: int) -> Tensor:
    """Places [G, C] of the sample of each class with the highest score [G, N]; any where a client has none."""
    of_class = one_hot(labels(group), num_classes).mT
    return torch.where(of_class, score[:, None], -torch.inf).argmax(-1)


def inputs_at(group: Group, places: Tensor) -> Tensor:
    """The network's inputs [G, M, ...] at places [G, M] of each client's list of samples."""
    samples, index = group.workplace.samples, group.positions.gather(1, places).clamp_min(0)
    return samples.inputs(samples.x[index], group.workplace.dtype)


def shared_inputs(group: Group) -> Tensor:
    """The network's inputs [C, ...] of the samples that everyone has, one of each class; see FedAvg.shares_samples.

    Any sample's stand for a class that the task has not.
    """
    samples, shared = group.workplace.samples, group.workplace.shared
    assert len(shared), "a method that looks at shared samples says so with shares_samples"
    return samples.inputs(samples.x[shared.clamp_min(0)], group.workplace.dtype)


def is_shared(group: Group) -> Tensor:
    """Whether everyone has a sample of each class [C]; not of those that the task has not."""
    return group.workplace.shared >= 0


def of_each(group: Group, function: OfSamples, theta: Tensor, keep: str = "") -> Tensors:
    """What a function gives for each of a client's samples in their order.

    Args:
        group: of clients.
        function: of one client's theta [V] and a batch of its samples; gives [B, ...] by name.
        theta: [V], or [G, V] one for each client.
        keep: a name, if the function looks at what does not change in a task alone; then a client's samples are looked
            at once in a task, and again after a resume.

    Returns:
        [G, N, ...] by name; 0 behind a client's last sample.
    """
    if keep:
        kept = group.workplace.kept
        names = [(keep, int(client)) for client in group.client]
        if any(name not in kept for name in names):
            found = of_each(group, function, theta)
            for lane, (name, n) in enumerate(zip(names, group.counts, strict=True)):
                kept[name] = {key: t[lane, :n].clone() for key, t in found.items()}  # of thousands padding has no room
        rows, width = [kept[name] for name in names], group.positions.shape[1]
        return {key: torch.cat([_of_length(row[key][None], width) for row in rows]) for key in rows[0]}
    parts = list(_by_chunks(group, function, theta))
    real = group.positions >= 0
    found = {name: _of_length(torch.cat([part[name] for part in parts], 1), real.shape[1]) for name in parts[0]}
    return {name: torch.where(real.view(*real.shape, *[1] * (t.ndim - 2)), t, 0) for name, t in found.items()}


def sum_over(group: Group, function: OfSamples, theta: Tensor) -> Tensors:
    """Sums over each client's samples of what a function gives.

    Args:
        group: of clients.
        function: of one client's theta [V] and a batch of its samples; gives sums over the batch [...] by name, of the
            samples whose mask is 1.
        theta: [V], or [G, V] one for each client.

    Returns:
        [G, ...] by name.
    """
    total, *others = _by_chunks(group, function, theta)
    for part in others:
        total = {name: t + part[name] for name, t in total.items()}
    return {name: t + 0.0 for name, t in total.items()}  # -0.0 would tell how many empty batches others needed


def batch_statistics(group: Group, theta: Tensor, model: FlatModel) -> Tensors:
    """Sums over each client's samples of BatchNorm's statistics at theta [P], each batch's as often as it has samples.

    Returns:
        statistics [G, S], and the number of samples [G].
    """

    def of_batch(theta: Tensor, batch: Batch) -> Tensors:
        return {"statistics": model.batch_statistics(theta, batch) * batch.mask.sum()}

    return sum_over(group, of_batch, theta) | {"samples": group.n}


def _of_length(values: Tensor, length: int) -> Tensor:
    """Values [G, M, ...] cut off, or filled up with zeros, at [G, length, ...]."""
    missing = length - values.shape[1]
    if missing <= 0:
        return values[:, :length]
    return torch.cat([values, values.new_zeros(values.shape[0], missing, *values.shape[2:])], 1)


def _by_chunks(group: Group, function: OfSamples, theta: Tensor) -> Iterator[Tensors]:
    work = group.workplace
    for drawn in group.in_order(AT_ONCE):
        work.check()
        batch = Batch(work.samples.inputs(drawn.x, work.dtype), drawn.y, drawn.mask, drawn.key, work.allowed)
        if theta.ndim > 1:
            yield by_lane(function, theta, batch, work.apart, LANES)
        else:
            with torch.no_grad():
                yield vmap(function, in_dims=(None, LANES))(theta, batch)
