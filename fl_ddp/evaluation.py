"""The global model on the test set, dealt to all ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from fl_ddp.collectives import Ranks
from fl_ddp.exact_sum import LIMIT, exact_total
from fl_ddp.samples import Samples
from fl_ddp.workers import workers_on

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
