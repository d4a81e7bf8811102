"""The loss that clients train with unless their method overrides `loss`: cross-entropy."""

from __future__ import annotations

import torch
from torch import Tensor


def cross_entropy(logits: Tensor, y: Tensor) -> Tensor:
    """Of each sample [...], from logits [..., C] and classes [...]; gathers nothing, which vmap would do slowly."""
    label = y[..., None] == torch.arange(logits.shape[-1], device=y.device)
    return logits.logsumexp(-1) - torch.where(label, logits, torch.zeros_like(logits)).sum(-1)


def mean_over(mask: Tensor, losses: Tensor) -> Tensor:
    """Mean of the losses [B] of a batch's real samples, whose mask [B] is 1 []; 0 of none."""
    return (losses * mask).sum() / mask.sum().clamp_min(1)
