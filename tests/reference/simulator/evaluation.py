"""How well models do: what metrics.csv says of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor
from torch.nn import functional as F

Row = dict[str, float]
"""A row of metrics.csv by column; empty columns are left out, or nan."""


def share_right(outputs: Tensor, y: Tensor) -> float:
    """The share of samples with logits [B, C] whose largest one is their label's; nan without samples."""
    right = [int(logits.argmax()) == int(label) for logits, label in zip(outputs, y, strict=True)]
    return sum(right) / len(right) if right else math.nan


def class_accuracies(outputs: Tensor, y: Tensor, classes: int) -> list[float]:
    """The accuracy on the samples of each class; nan for a class without any."""
    return [share_right(outputs[y == label], y[y == label]) for label in range(classes)]


def mean_loss(outputs: Tensor, y: Tensor) -> float:
    """The mean over samples of their cross-entropy."""
    losses = [F.cross_entropy(logits[None], label[None]).item() for logits, label in zip(outputs, y, strict=True)]
    return sum(losses) / len(losses)


def mean_known(values: Sequence[float]) -> float:
    """The mean of those that are numbers; nan if none is."""
    known = [value for value in values if not math.isnan(value)]
    return sum(known) / len(known) if known else math.nan


def forgetting(course: Sequence[Sequence[float]], sizes: Sequence[Sequence[int]]) -> float:
    """The mean over classes of their best accuracy so far on the present test samples less the present one.

    Args:
        course: the classes' accuracies in each evaluated round up to the present one.
        sizes: numbers of their test samples in these rounds; with another number they were others.
    """
    alike = [
        [accuracy if size == now else math.nan for accuracy, size, now in zip(*each, sizes[-1], strict=True)]
        for each in zip(course, sizes, strict=True)
    ]
    return mean_known([best(of_class) - of_class[-1] for of_class in zip(*alike, strict=True)])


def class_sizes(sets: Sequence[tuple[Tensor, Tensor, list[int] | None]], classes: int) -> list[int]:
    """Samples of each class in some test sets, their inputs, labels and allowed classes."""
    return [sum(int((y == label).sum()) for _, y, _ in sets) for label in range(classes)]


def best(course: Sequence[float]) -> float:
    """The largest value there is; nan if there is none."""
    return max((value for value in course if not math.isnan(value)), default=math.nan)
