"""The same number of labels for every client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl_ddp.bounds import Count
from fl_ddp.errors import ConfigError
from fl_ddp.partitions.partition import Partition, parts_of
from fl_ddp.protocol import Indices


@dataclass(frozen=True)
class Classes(Partition):
    """Every client has samples of exactly so many labels; those of a label are divided evenly among who has it.

    Labels have as many clients as each other, or one more.

    Attributes:
        classes_per_client: number of labels of each client.

    Source: Li et al. 2022 (NIID-Bench, arXiv 2102.02079), section 4.1, "quantity-based label imbalance", #C = k.
    """

    classes_per_client: Count = 2

    def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
        """See Partition.split."""
        known = np.unique(labels)
        each, least = self.classes_per_client, -(-len(known) // num_clients)
        if not least <= each <= len(known):
            what = f"{each} is impossible with {len(known)} labels and {num_clients} clients"
            raise ConfigError(
                "--partition.classes_per_client", what, f"{least} to {len(known)}" if least < len(known) else f"{least}"
            )
        has, clients_of = np.zeros((num_clients, len(known)), bool), np.zeros(len(known), np.int64)
        for client in rng.permutation(num_clients):
            fewest_first = np.lexsort((rng.random(len(known)), clients_of))
            has[client, fewest_first[:each]] = True
            clients_of[fewest_first[:each]] += 1
        owner = np.empty(len(labels), np.int64)
        for place, label in enumerate(known):
            samples = rng.permutation(np.flatnonzero(labels == label))
            clients = rng.permutation(np.flatnonzero(has[:, place]))
            if len(samples) < len(clients):
                what = f"{each} gives {len(clients)} clients the label {label}, which {len(samples)} samples have"
                raise ConfigError("--partition.classes_per_client", what, "fewer, or fewer --clients")
            owner[samples] = clients[np.arange(len(samples)) % len(clients)]
        return parts_of(owner, num_clients)
