"""The global model on the test set, dealt to all ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from fl_ddp.engine.flat_model import FlatModel
from fl_ddp.engine.samples import Samples
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.exact_sum import LIMIT, exact_total
from fl_ddp.ranks.threads import workers_on

BATCH = 1000
"""Samples per forward pass; fixed, so that neither ranks nor memory move a bit of the loss."""


class Scores(NamedTuple):
    """How a model does on a test set.

    Attributes:
        accuracy: fraction of samples whose largest logit is the label's.
        loss: mean cross-entropy; a sample counts up to 2^27 / N, so that the sum is exact.
        class_accuracy: [C] accuracy on the samples of each class; nan where there are none.
        confusion: [C, C] numbers of samples by label and prediction.
    """

    accuracy: float
    loss: float
    class_accuracy: tuple[float, ...]
    confusion: tuple[tuple[int, ...], ...]


def evaluate_clients(
    predict: Callable[[Tensor], Tensor],
    samples: Samples,
    parts: Sequence[npt.NDArray[np.int64]],
    dtype: torch.dtype,
    ranks: Ranks,
) -> float | None:
    """A model's mean accuracy over clients, each on its own test samples; None if no client has any.

    Args:
        predict: logits [B, C] of inputs [B, ...].
        samples: that the parts are of.
        parts: test samples of each client; clients without any do not count.
        dtype: of the inputs.
        ranks: to deal batches to.
    """
    owner = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    if not len(owner):
        return None
    device = samples.y.device
    index, client = (torch.from_numpy(t).to(device) for t in (np.concatenate(parts), owner))

    def score(start: int) -> Tensor:
        """Right predictions by client, of one batch."""
        with torch.no_grad():
            rows = index[start : start + BATCH]
            right = predict(samples.inputs(samples.x[rows], dtype)).argmax(1) == samples.y[rows]
            return torch.bincount(client[start : start + BATCH][right], minlength=len(parts)).double()

    mine = range(ranks.index * BATCH, len(owner), ranks.size * BATCH)
    batches = ranks.together(lambda: workers_on(device.type).map(score, mine))
    nothing = torch.zeros(len(parts), dtype=torch.float64, device=device)
    right = ranks.add(torch.stack([nothing, *batches]).sum(0)).cpu().numpy()
    sizes = np.array([len(part) for part in parts])
    return float(np.mean(right[sizes > 0] / sizes[sizes > 0]))


def own_accuracy(model: FlatModel, theta: Tensor, samples: Samples, parts: Sequence[npt.NDArray[np.int64]]) -> Tensor:
    """Accuracy [G], float64, of each lane's model on its own samples; 0 where it has none.

    Args:
        model: the network.
        theta: [G, P].
        samples: that the parts are of.
        parts: test samples of each lane, one list a lane.
    """
    device = samples.y.device
    longest = max((len(part) for part in parts), default=0)
    rows = torch.full((len(parts), longest), -1)
    for lane, part in enumerate(parts):
        rows[lane, : len(part)] = torch.from_numpy(part)
    rows = rows.to(device)
    right = torch.zeros(len(parts), device=device, dtype=torch.float64)
    with torch.no_grad():
        for at in torch.split(rows, max(1, BATCH // max(len(parts), 1)), 1):
            index = at.clamp_min(0)
            logits = torch.vmap(model.logits)(theta, samples.inputs(samples.x[index], model.dtype))
            right += ((logits.argmax(2) == samples.y[index]) & (at >= 0)).sum(1)
    return right / (rows >= 0).sum(1).clamp_min(1)


def evaluate(
    predict: Callable[[Tensor], Tensor], samples: Samples, num_classes: int, dtype: torch.dtype, ranks: Ranks
) -> Scores:
    """Score a model; every rank takes every so-many-th batch and all get the result.

    Args:
        predict: logits [B, C] of inputs [B, ...].
        samples: the test set.
        num_classes: C.
        dtype: of the inputs.
        ranks: to deal batches to.
    """
    size, device = len(samples.y), samples.y.device

    def score(start: int) -> Tensor:
        """Counts by label and prediction, then the two bins of the loss, of one batch."""
        with torch.no_grad():
            label = samples.y[start : start + BATCH]
            logits = predict(samples.inputs(samples.x[start : start + BATCH], dtype))
            counts = torch.bincount(label * num_classes + logits.argmax(1), minlength=num_classes**2)
            nll = torch.nn.functional.cross_entropy(logits, label, reduction="none")
            return torch.cat([counts.double(), exact_total(nll.double().clamp(max=LIMIT / size))])

    mine = range(ranks.index * BATCH, size, ranks.size * BATCH)
    batches = ranks.together(lambda: workers_on(device.type).map(score, mine))
    nothing = torch.zeros(num_classes**2 + 2, dtype=torch.float64, device=device)
    total = ranks.add(torch.stack([nothing, *batches]).sum(0)).cpu()
    confusion = total[:-2].view(num_classes, num_classes)
    per_class = confusion.diagonal() / confusion.sum(1)
    return Scores(
        float(confusion.diagonal().sum() / size),
        float(total[-2:].sum() / size),
        tuple(per_class.tolist()),
        tuple(tuple(int(c) for c in row) for row in confusion.tolist()),
    )
