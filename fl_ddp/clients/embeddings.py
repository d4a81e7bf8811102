"""Embeddings of samples: normal distributions, written as mu | sigma [..., 2 D], or points [..., D]."""

from __future__ import annotations

import torch
from torch import Tensor

from fl_ddp.engine.seeds import normal


def distributions(mu: Tensor, log_sigma: Tensor) -> Tensor:
    """Mu | sigma [..., 2 D] of means and logarithms of deviations; minus infinity for a point."""
    return torch.cat([mu, log_sigma.exp()], -1)


def sampled(embeddings: Tensor, size: int, key: Tensor, stream: int = 0) -> Tensor:
    """One point [..., D] of each distribution, by a key [] and its stream; points of D = size as they are."""
    if embeddings.shape[-1] == size:
        return embeddings
    mu, sigma = embeddings.chunk(2, -1)
    return mu + sigma * normal(key, stream, mu.shape)


def divergence(embeddings: Tensor) -> Tensor:
    """KL(N(mu, sigma) || N(0, 1)) of distributions, summed over D; nothing of points, of which it is infinite.

    Source: Kingma and Welling 2013 (arXiv:1312.6114), appendix B.
    """
    mu, sigma = embeddings.chunk(2, -1)
    width = sigma.square() - 1 - 2 * torch.where(sigma > 0, sigma, 1).log()
    return torch.where(sigma > 0, mu.square() + width, 0).sum(-1) / 2
