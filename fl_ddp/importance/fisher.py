"""How much a client's data say about each parameter: diagonal Fisher information and its relatives.

One pass over the clients' samples, in evaluation mode and in the model's own precision: of all lanes of a group at
once, or, on a CPU and of a large model, of one client after another in all idle threads, each as long as it has
samples. Sums run in chunks whose size depends on the model alone, in the order that Group.once draws, and are
accumulated in place; memory does not grow with the number of samples.

Scaling: powers of every sample's gradient, summed or averaged over samples. Public code mostly squares the mean
gradient of a batch instead (batch_mean), which near an optimum is smaller by about the batch size: E[batch_mean_sq(B)]
= per_sample_mean / B + (1 - 1 / B) (mean gradient)^2 for batches drawn with replacement. A penalty's coefficient tuned
on one must be converted for the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Literal

import torch
from torch import Tensor

from fl_ddp.engine.group import Group
from fl_ddp.engine.step import Drawn, joined
from fl_ddp.importance.chunk import Chunk, added_up, norm_step, sum_step
from fl_ddp.importance.coverage import Coverage, coverage
from fl_ddp.importance.sensitivity import Label, Sensitivity
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Leaves

Reduction = Literal["per_sample_mean", "batch_mean_sq", "sum"]

_CHUNK = 50
"""Samples of a client at once, if memory allows; like the next three it orders sums, so it is part of the results."""
_LARGEST = 2**24
"""Numbers per lane in the largest temporary, patches of convolutions aside."""
_ALONE = 2**18
"""Numbers of a model from which on its clients go one by one on a CPU: several at once would leave its caches."""
_CLASSES = 10
"""Classes at once, at most, in the exact Fisher."""


def importance_sum(
    group: Group,
    theta: Tensor,
    model: FlatModel,
    sensitivity: Sensitivity,
    *,
    batch_size: int | None = None,
    max_samples: int = 0,
) -> tuple[Tensor, Tensor]:
    """Sum a sensitivity over each client's samples, or batches where it is of batches' mean gradients.

    Args:
        group: the clients.
        theta: [P] or [G, P], where the gradients are taken.
        model: the network.
        sensitivity: what is summed.
        batch_size: of the batches; only for sensitivities of batches.
        max_samples: of a client, drawn by seed, round and client; 0 for all.

    Returns:
        [G, P] sums in the model's type, zero for padded lanes, and [G] how many were summed.
    """
    assert sensitivity.batch_mean == (batch_size is not None)
    of = partial(_sum, model=model, sensitivity=sensitivity, batch_size=batch_size, max_samples=max_samples)
    return _by_clients(group, theta, model, of)


def _sum(
    group: Group, theta: Tensor, model: FlatModel, sensitivity: Sensitivity, batch_size: int | None, max_samples: int
) -> tuple[Tensor, Tensor]:
    """As importance_sum(), of lanes side by side."""
    covered = coverage(model, tuple(group.workplace.samples.x.shape[1:]))
    n = group.n.clamp(max=max_samples) if max_samples else group.n
    batch_size = min(batch_size, group.largest) if batch_size else None
    count = n if batch_size is None else (n / batch_size).ceil()
    blocks = _blocks(model, sensitivity)
    of_batches = batch_size is not None and not sensitivity.over_classes
    size = batch_size if of_batches and batch_size else chunk_size(covered, len(blocks[0]))
    work, leaves, total = group.workplace, _leaves(group, theta, model), _nothing(group, model)

    def chunks() -> Iterator[tuple[object, ...]]:
        for index, drawn in enumerate(group.once(size, max_samples)):
            weight = drawn.mask
            if batch_size is not None:
                weight = drawn.mask / _samples_of_batch(drawn, n, batch_size, index * size)
            chunk = Chunk(drawn.x, drawn.y, weight, drawn.key)
            for classes in blocks:
                yield total, leaves, chunk, work.samples.normaliser, classes, work.allowed

    step = partial(sum_step, model, sensitivity, covered, work.compile, _products(group))
    with torch.no_grad():
        found = added_up(group, step, total, chunks(), joined)
    return found.div_(sensitivity.draws) if sensitivity.draws > 1 else found, count


def fisher(
    group: Group,
    theta: Tensor,
    model: FlatModel,
    *,
    kind: Label = "empirical",
    reduction: Reduction = "per_sample_mean",
    batch_size: int = 100,
    max_samples: int = 0,
    draws: int = 1,
) -> Tensor:
    """Diagonal Fisher information of each client's data, from gradients of -log p(y | x).

    Args:
        group: the clients.
        theta: [P] or [G, P], where the gradients are taken.
        model: the network.
        kind: the label y: empirical takes the data's, exact the expectation over classes by p, mc draws of p.
        reduction: per_sample_mean is the mean over samples of g^2, sum their sum, larger by the number of samples;
            batch_mean_sq the mean over batches of the square of the batch's mean g, smaller by up to the batch size
            (see the top of this file).
        batch_size: samples in a batch of batch_mean_sq; the last one may be smaller.
        max_samples: of a client, drawn by seed, round and client; 0 for all.
        draws: of mc, for each sample.

    Returns:
        [G, P], not negative, in the model's type; zero for padded lanes.

    Source: Kirkpatrick et al. 2017, eq. 3; Kunstner et al. 2019 for the three kinds.
    """
    of_batches = reduction == "batch_mean_sq"
    sensitivity = Sensitivity(kind, batch_mean=of_batches, draws=draws if kind == "mc" else 1)
    batch = batch_size if of_batches else None
    total, count = importance_sum(group, theta, model, sensitivity, batch_size=batch, max_samples=max_samples)
    return total if reduction == "sum" else total.div_(count.clamp_min(1)[:, None])


def mean_gradient_norm(group: Group, theta: Tensor, model: FlatModel) -> Tensor:
    """Mean over each client's samples of the 2-norm [G] of the whole gradient of -log p(y | x); 0 for padded lanes."""
    total, n = _by_clients(group, theta, model, lambda lanes, theta: (_norms(lanes, theta, model), lanes.n))
    return total / n.clamp_min(1)


def _norms(group: Group, theta: Tensor, model: FlatModel) -> Tensor:
    """Sums over each client's samples [G], of lanes side by side."""
    work, leaves, total = group.workplace, _leaves(group, theta, model), torch.zeros_like(group.n)
    chunks = (
        (total, leaves, Chunk(drawn.x, drawn.y, drawn.mask, drawn.key), work.samples.normaliser, work.allowed)
        for drawn in group.once(min(_CHUNK, max(1, _LARGEST // model.num_params)))
    )
    with torch.no_grad():
        return added_up(group, partial(norm_step, model, work.compile), total, chunks, torch.clone)


def _by_clients(
    group: Group, theta: Tensor, model: FlatModel, of: Callable[[Group, Tensor], tuple[Tensor, Tensor]]
) -> tuple[Tensor, Tensor]:
    """Two tensors [G, ...] that a pass over a group's samples makes: of all lanes at once, or of one after another.

    Args:
        group: the clients.
        theta: [P] or [G, P].
        model: which decides, with its device.
        of: the pass, of a group and theta.
    """
    if model.device.type != "cpu" or model.num_params < _ALONE or group.lanes == 1:
        return of(group, theta)
    theta, found = theta.expand(group.lanes, -1), dict[int, tuple[Tensor, Tensor]]()

    def one(lane: int) -> None:
        found[lane] = of(group.alone(lane), theta[lane])

    group.workplace.spread(one, range(group.lanes))
    first, second = zip(*(found[lane] for lane in range(group.lanes)), strict=True)
    return torch.cat(first), torch.cat(second)


def _products(group: Group) -> bool | None:
    """Whether a GPU convolves lanes by matrix products, as in local steps; on a CPU all is as torch does it."""
    work = group.workplace
    return None if work.samples.x.device.type == "cpu" else work.convolution == "auto"


def _leaves(group: Group, theta: Tensor, model: FlatModel) -> Leaves:
    leaves = model.leaves(theta.expand(group.lanes, -1))
    return tuple(leaf.clone(memory_format=torch.contiguous_format) for leaf in leaves)


def _nothing(group: Group, model: FlatModel) -> Leaves:
    return tuple(torch.zeros(group.lanes, *s, dtype=model.dtype, device=model.device) for s in model.shapes)


def _blocks(model: FlatModel, sensitivity: Sensitivity) -> list[Tensor]:
    """All classes in blocks of equal size, filled up with numbers from C up; or the number of each draw."""
    if not sensitivity.over_classes:
        return [torch.full((1,), draw, device=model.device) for draw in range(sensitivity.draws)]
    blocks = -(-model.num_classes // _CLASSES)
    size = -(-model.num_classes // blocks)
    return [torch.arange(i * size, (i + 1) * size, device=model.device) for i in range(blocks)]


def chunk_size(covered: Coverage, classes: int) -> int:
    """Samples of a client at once."""
    return max(1, min(_CHUNK, _LARGEST // covered.largest) // classes)


def _samples_of_batch(drawn: Drawn, n: Tensor, batch_size: int, first: int) -> Tensor:
    """Number of samples [G, B] in the batch of each, a client's n [G] samples being cut into batches in their order."""
    position = torch.arange(first, first + drawn.mask.shape[1], device=n.device)
    last = n % batch_size
    return torch.where(position < (n - last)[:, None], batch_size, last.clamp_min(1)[:, None])
