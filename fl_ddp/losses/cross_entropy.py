"""Classification: cross-entropy, among the classes that are allowed, and what losses of methods are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fl_ddp.losses.criterion import Criterion
from fl_ddp.protocol import Targets

_FAR_BELOW = -1e30
"""A logit whose probability is 0; finite, so that nothing times a mask of 0 is NaN."""


@dataclass(frozen=True)
class CrossEntropy(Criterion):
    """Of samples that are of one class each, whose number is their target.

    Attributes:
        label_smoothing: share of a label's probability that all allowed classes have alike in training.
    """

    label_smoothing: float = 0.0

    name: ClassVar[str] = "cross_entropy"
    targets: ClassVar[Targets] = "classes"

    def of_samples(self, outputs: Tensor, y: Tensor) -> Tensor:
        """See Criterion."""
        return cross_entropy(outputs, y)

    def gradient(self, outputs: Tensor, y: Tensor) -> Tensor:
        """See Criterion."""
        p = outputs.softmax(-1)
        return p - one_hot(y, outputs.shape[-1]).to(p)

    def in_training(self, outputs: Tensor, y: Tensor) -> Tensor:
        """See Criterion."""
        return cross_entropy(outputs, y, self.label_smoothing)


def cross_entropy(logits: Tensor, y: Tensor, smoothing: float = 0.0) -> Tensor:
    """Of each sample [...], from logits [..., C] and classes [...]; gathers nothing, which vmap would do slowly.

    Args:
        logits: those of labels that are not allowed as among() leaves them.
        y: classes.
        smoothing: share of the label's probability that all allowed classes have alike, as torch's label_smoothing.
    """
    label, zero = one_hot(y, logits.shape[-1]), torch.zeros_like(logits)
    whole = logits.logsumexp(-1)
    of_label = whole - torch.where(label, logits, zero).sum(-1)
    if not smoothing:
        return of_label
    allowed = logits > _FAR_BELOW / 2
    count = allowed.sum(-1).clamp_min(1)  # padding may lack them all
    of_all = whole - torch.where(allowed, logits, zero).sum(-1) / count
    return (1 - smoothing) * of_label + smoothing * of_all


def among(logits: Tensor, allowed: Tensor | None) -> Tensor:
    """Logits [..., C] with those of labels that are not allowed [C] far below all others; None allows all."""
    return logits if allowed is None else torch.where(allowed, logits, _FAR_BELOW)


def as_float32(outputs: Tensor) -> Tensor:
    """A model's outputs as losses reckon with them: the 8 bits of autocast's bfloat16 are too few for log-sum-exp."""
    # whatever a user's model gives in their place is refused, or not looked at
    return outputs.float() if isinstance(outputs, Tensor) and outputs.dtype == torch.bfloat16 else outputs


def one_hot(y: Tensor, num_classes: int) -> Tensor:
    """Whether each class is the label's, [..., C] bool, of labels [...]; one below 0 is of no class."""
    return y[..., None] == torch.arange(num_classes, device=y.device)
