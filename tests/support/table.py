"""A model whose logits are its weights: a batch of one-hot inputs reads rows of them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Batch, Leaves


class _Table(nn.Module):
    """Features W x of an input x, which are its logits, too; a linear layer that is 0 is added to these."""

    def __init__(self, rows: Tensor) -> None:
        super().__init__()
        self.body = nn.Linear(len(rows), rows.shape[1], bias=False, dtype=torch.float64)
        self.head = nn.Linear(rows.shape[1], rows.shape[1], dtype=torch.float64)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        self.body.weight.data = rows.mT.contiguous()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = self.body(x)
        return z, z + self.head(z)


def table(rows: Sequence[Sequence[float]]) -> FlatModel:
    """The model that gives row i for the i-th one-hot input."""
    values = torch.tensor(rows, dtype=torch.float64)
    return FlatModel(_Table(values), values.shape[1], torch.zeros(1, len(values), dtype=torch.float64))


def of_rows(vector: Tensor | Leaves, model: FlatModel) -> Tensor:
    """A parameter vector's part that belongs to the table, row by row."""
    leaves = vector if isinstance(vector, tuple) else model.leaves(vector)
    return leaves[0].mT


def reading(labels: Sequence[int], num_rows: int, mask: Sequence[float] | None = None) -> Batch:
    """A batch that reads the first rows in turn, their samples' labels given."""
    x = torch.eye(num_rows, dtype=torch.float64)[: len(labels)]
    real = torch.tensor(mask or [1.0] * len(labels), dtype=torch.float64)
    return Batch(x, torch.tensor(labels), real, torch.zeros((), dtype=torch.int64))
