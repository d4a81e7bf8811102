"""Quantity skew: the same mixture of labels everywhere, very different amounts of data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fl_ddp.bounds import Positive
from fl_ddp.partitions.partition import Partition, parts_of
from fl_ddp.protocol import Indices


@dataclass(frozen=True)
class Quantity(Partition):
    """Every client gets min_size samples and a share of the rest drawn from Dirichlet(alpha); which ones is random.

    Where the source draws anew until the smallest client has enough, this needs one draw.

    Attributes:
        alpha: concentration; small is skewed, large is even.

    Source: Li et al. 2022, arXiv:2102.02079 (NIID-Bench), "quantity skew".
    """

    alpha: Positive = 0.5

    by_label: ClassVar[bool] = False

    def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
        """See Partition.split."""
        shares = rng.dirichlet(np.full(num_clients, self.alpha))
        ends = np.cumsum(shares if shares.any() else np.ones(num_clients))  # a huge alpha underflows
        spare = len(labels) - num_clients * self.min_size
        sizes = self.min_size + np.diff(np.floor(ends / ends[-1] * spare).astype(np.int64), prepend=0)
        return parts_of(rng.permutation(np.repeat(np.arange(num_clients), sizes)), num_clients)
