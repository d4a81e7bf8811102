"""How the server's model does on a test set, of which all ranks have a part, and on several as on one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from fl_ddp.engine.samples import Samples
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.exact_sum import LIMIT, exact_total
from fl_ddp.ranks.outputs import Passes, summed
from fl_ddp.results.metrics import Record


class Scores(NamedTuple):
    """How a model does on a test set.

    Attributes:
        accuracy: fraction of samples whose largest logit is the label's, or of right decisions; None if nothing is so.
        loss: mean of the samples'; a cross-entropy counts up to 2^27 / N, so that the sum is exact.
        class_accuracy: [C] accuracy on the samples of each class, nan where there are none; or of each decision.
        confusion: [C, C] numbers of samples by label and prediction; empty where there are no classes.
        of_tasks: accuracies on the test sets of tasks, from the first on; maybe more than count above. Empty where all
            tasks have the same.
        measures: what else the loss tells, and functions of the user's as measure/<name>.
    """

    accuracy: float | None
    loss: float
    class_accuracy: tuple[float, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()
    of_tasks: tuple[float, ...] = ()
    measures: Mapping[str, float] = MappingProxyType({})

    def told(self, record: Record) -> Record:
        """A round's record with these scores of the global model."""
        of_class, measures = self.class_accuracy or None, dict(self.measures)
        of_all = replace(record, accuracy=self.accuracy, loss=self.loss, class_accuracy=of_class, measures=measures)
        return replace(of_all, task_accuracy=self.of_tasks)


def evaluate(
    predict: Callable[[Tensor], Tensor], samples: Samples, num_classes: int, passes: Passes, ranks: Ranks
) -> Callable[[], Scores]:
    """Score a model; every rank takes every so-many-th batch and all get the result, by what waits for it.

    Args:
        predict: logits [B, C] of inputs [B, ...].
        samples: the test set.
        num_classes: C.
        passes: over it.
        ranks: to deal batches to.
    """
    size = len(samples.y)

    def look(batch: slice) -> Tensor:
        logits = predict(samples.inputs_at(batch, passes.dtype))
        nll = torch.nn.functional.cross_entropy(logits, samples.y[batch], reduction="none")
        return torch.stack([logits.argmax(1), nll.double()])

    def score(found: Tensor, places: Tensor) -> Tensor:
        """Counts by label and prediction, then the two bins of the loss."""
        predicted, nll = found
        counts = predicted.new_zeros(num_classes**2)
        counts.index_add_(0, samples.y[places] * num_classes + predicted.long(), torch.ones_like(predicted))
        return torch.cat([counts, exact_total(nll.clamp(max=LIMIT / size))])

    wait = summed(look, score, num_classes**2 + 2, size, passes.size, ranks)

    def scores() -> Scores:
        total = wait()
        confusion = total[:-2].view(num_classes, num_classes)
        per_class = confusion.diagonal() / confusion.sum(1)
        return Scores(
            float(confusion.diagonal().sum() / size),
            float(total[-2:].sum() / size),
            tuple(per_class.tolist()),
            tuple(tuple(int(c) for c in row) for row in confusion.tolist()),
        )

    return scores


def pooled(each: Sequence[Scores]) -> Scores:
    """Scores on several test sets as on one of all their samples."""
    if len(each) == 1:
        return each[0]
    confusion = np.sum([scores.confusion for scores in each], 0)
    sizes = [np.sum(scores.confusion) for scores in each]
    with np.errstate(invalid="ignore"):
        of_class = confusion.diagonal() / confusion.sum(1)
    return Scores(
        float(confusion.trace() / confusion.sum()),
        float(np.average([scores.loss for scores in each], weights=sizes)),
        tuple(of_class.tolist()),
        tuple(map(tuple, confusion.tolist())),
    )
