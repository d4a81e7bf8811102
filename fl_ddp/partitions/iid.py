"""The homogeneous partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fl_ddp.partitions.partition import Partition, parts_of
from fl_ddp.protocol import Indices


@dataclass(frozen=True)
class IID(Partition):
    """Samples are dealt at random; sizes differ by at most one. Source: McMahan et al. 2017, section 3."""

    by_label: ClassVar[bool] = False

    def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
        """See Partition.split."""
        return parts_of(rng.permutation(len(labels)) % num_clients, num_clients)
