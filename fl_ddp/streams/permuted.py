"""Tasks that differ in the order of the pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fl_ddp.bounds import Count
from fl_ddp.streams.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Permuted(Stream):
    """Every task has all samples, their pixels in a random order of its own; the first as they are.

    Attributes:
        tasks: their number.

    Source: Goodfellow et al. 2013 (arXiv:1312.6211).
    """

    tasks: Count = 10

    @property
    def num_tasks(self) -> int:
        """As many as were asked for."""
        return self.tasks

    def inputs(self, task: int, x: Tensor, rng: np.random.Generator) -> Tensor:
        """Images [n, channels, height, width], all channels alike, or features [n, F]."""
        if task == 0:
            return x
        flat = x.flatten(2) if x.ndim > 2 else x
        order = torch.from_numpy(rng.permutation(flat.shape[-1])).to(x.device)
        return flat.index_select(-1, order).view_as(x)
