"""Losses of samples whose targets are numbers: what clients train for, and how well models do."""

from __future__ import annotations

import math

from evaluation import Row, share_right
from torch import Tensor
from torch.nn import functional as F

SCORES = {"cross_entropy": "accuracy", "mse": "mae", "bce": "accuracy"}
"""What a client's models are measured by on its own test samples, by the loss."""
DATA = {"cross_entropy": "data", "mse": "values", "bce": "labels"}
"""Which of the files of samples.py is of it."""


def own_score(loss: str, outputs: Tensor, y: Tensor) -> float:
    """Of a client's own test samples; nan without any."""
    if not len(y):
        return math.nan
    score = {"cross_entropy": share_right, "mse": mean_absolute, "bce": share_decided}[loss]
    return score(outputs, y)


def share_decided(outputs: Tensor, y: Tensor) -> float:
    """The share of labels that are rightly given, or not given, to samples, by logits of above 0 or below."""
    decided, has = ((outputs > 0).flatten().tolist(), (y == 1).flatten().tolist())
    return float(sum(a == b for a, b in zip(decided, has, strict=True)) / len(has))


def mean_absolute(outputs: Tensor, y: Tensor) -> float:
    """The mean over samples and outputs of the distance from the target."""
    gaps: list[float] = [abs(a - b) for a, b in zip(outputs.flatten().tolist(), y.flatten().tolist(), strict=True)]
    return sum(gaps) / len(gaps)


def of_test_set(loss: str, outputs: Tensor, y: Tensor) -> Row:
    """What metrics.csv says of the global model."""
    if loss == "bce":
        return of_labels(outputs, y)
    return {"mae": mean_absolute(outputs, y), "r2": r_squared(outputs, y), "loss": float(F.mse_loss(outputs, y))}


def r_squared(outputs: Tensor, y: Tensor) -> float:
    """The share of a target's variance that is explained, mean over the outputs."""
    found = list[float]()
    for ours, theirs in zip(outputs.T, y.T, strict=True):
        mean = sum(theirs.tolist()) / len(theirs)
        left = sum((a - b) ** 2 for a, b in zip(ours.tolist(), theirs.tolist(), strict=True))
        found.append(1 - left / sum((b - mean) ** 2 for b in theirs.tolist()))
    return sum(found) / len(found)


def of_labels(outputs: Tensor, y: Tensor) -> Row:
    """Of several labels a sample."""
    columns = list(zip(outputs.T, y.T, strict=True))
    whole = [share_decided(z, own) == 1 for z, own in zip(outputs, y, strict=True)]
    known = [area(*both) for both in columns if len(set(both[1].tolist())) == 2]
    return {
        "accuracy": share_decided(outputs, y),
        **{f"accuracy/{label}": share_decided(*both) for label, both in enumerate(columns)},
        "exact_match": sum(whole) / len(whole),
        "f1": sum(f_one(*both) for both in columns) / len(columns),
        "auc": sum(known) / len(known) if known else math.nan,
        "loss": float(F.binary_cross_entropy_with_logits(outputs, y)),
    }


def f_one(outputs: Tensor, y: Tensor) -> float:
    """2 TP / (2 TP + FP + FN) of one label; 0 if nobody has it and nobody is given it."""
    pairs = list(zip((outputs > 0).tolist(), (y == 1).tolist(), strict=True))
    hits, wrong = 2 * pairs.count((True, True)), pairs.count((True, False)) + pairs.count((False, True))
    return hits / (hits + wrong) if hits + wrong else 0.0


def area(outputs: Tensor, y: Tensor) -> float:
    """The share of pairs of a sample with the label and one without it in which the first has the larger logit."""
    with_it, without = outputs[y == 1].tolist(), outputs[y == 0].tolist()
    above = sum(float(a > b) + float(a == b) / 2 for a in with_it for b in without)
    return float(above / (len(with_it) * len(without)))
