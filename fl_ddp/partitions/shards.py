"""The label shards of the FedAvg paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl_ddp.bounds import Count
from fl_ddp.errors import ConfigError
from fl_ddp.partitions.partition import Partition, parts_of
from fl_ddp.protocol import Indices


@dataclass(frozen=True)
class Shards(Partition):
    """Samples sorted by label are cut into shards, dealt at random; every client gets the same number of shards.

    Shards differ by at most one sample, so that none is left over.

    Attributes:
        shards_per_client: number of shards of each client; 2 gives most clients two labels.

    Source: McMahan et al. 2017, section 3, "pathological non-IID".
    """

    shards_per_client: Count = 2

    def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
        """See Partition.split."""
        num_samples, num_shards = len(labels), num_clients * self.shards_per_client
        if not 1 <= self.shards_per_client <= num_samples // num_clients:
            raise ConfigError(
                "--partition.shards_per_client",
                f"{self.shards_per_client} is impossible",
                (f"1 to {num_samples // num_clients} ({num_samples} training samples for {num_clients} clients)"),
            )
        holder = rng.permutation(num_shards) % num_clients
        owner = np.empty(num_samples, np.int64)
        owner[np.argsort(labels, kind="stable")] = holder[np.arange(num_samples) * num_shards // num_samples]
        return parts_of(owner, num_clients)
