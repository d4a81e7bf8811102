"""Importances brought to a common scale."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import alike

Norm = Literal["l2", "l1", "max", "none"]
_ORDER = {"l2": 2, "l1": 1, "max": torch.inf}


def by_tensor_norm(model: FlatModel, importance: Tensor, norm: Norm) -> Tensor:
    """Importances [G, P], each tensor of each client divided by its norm; a tensor of zeros stays as it is."""
    if norm == "none":
        return importance
    scaled = []
    for leaf in model.leaves(importance):
        flat = leaf.reshape(len(leaf), -1)
        size = torch.linalg.vector_norm(alike(flat), _ORDER[norm], 1, keepdim=True, dtype=torch.float64)
        scaled.append(flat / size.to(flat.dtype).clamp_min(torch.finfo(flat.dtype).tiny))
    return torch.cat(scaled, 1)


def of_largest(importance: Tensor) -> Tensor:
    """Importances divided by the largest of them; zeros stay zeros."""
    return importance / importance.amax().clamp_min(torch.finfo(importance.dtype).tiny)
