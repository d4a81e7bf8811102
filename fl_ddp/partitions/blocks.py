"""The blocks of homogeneous labels of the FedCurv paper."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl_ddp.bounds import Count
from fl_ddp.errors import ConfigError
from fl_ddp.partitions.partition import Partition, parts_of
from fl_ddp.protocol import Indices


@dataclass(frozen=True)
class Blocks(Partition):
    """Each class is cut at random into blocks of one size, and every client gets some of them at random.

    What is left of a class after its last full block, and blocks beyond those dealt, belong to nobody. MNIST in 96 x 2
    blocks leaves out 1,248 of 60,000 images (block size 306).

    Attributes:
        blocks_per_client: number of blocks of each client.
        block_size: samples of a block; null takes the largest size that gives enough blocks.

    Source: Shoham et al. 2019 (FedCurv), arXiv:1910.07796, section 4.
    """

    blocks_per_client: Count = 2
    block_size: Count | None = None

    def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
        """See Partition.split."""
        num_samples, wanted = len(labels), num_clients * self.blocks_per_client
        if not 1 <= self.blocks_per_client <= num_samples // num_clients:
            raise ConfigError(
                "--partition.blocks_per_client",
                f"{self.blocks_per_client} is impossible",
                (f"1 to {num_samples // num_clients} ({num_samples} training samples for {num_clients} clients)"),
            )
        per_class = np.bincount(labels)
        largest = _largest_size(per_class, wanted)
        size = largest if self.block_size is None else self.block_size
        if not 1 <= size <= largest:
            raise ConfigError(
                "--partition.block_size", f"{size} is impossible", f"1 to {largest} for {wanted} blocks, or null"
            )
        blocks = per_class // size
        holder = np.full(blocks.sum(), -1)
        holder[rng.permutation(blocks.sum())[:wanted]] = np.arange(wanted) % num_clients

        shuffled = rng.permutation(num_samples)
        order = shuffled[np.argsort(labels[shuffled], kind="stable")]
        label = labels[order]
        block = (np.arange(num_samples) - (np.cumsum(per_class) - per_class)[label]) // size  # within its class
        full = block < blocks[label]
        owner = np.full(num_samples, -1)
        owner[order[full]] = holder[((np.cumsum(blocks) - blocks)[label] + block)[full]]
        return parts_of(owner, num_clients)


def _largest_size(per_class: Indices, wanted: int) -> int:
    """The largest block size that gives so many blocks, by bisection; there are at least so many samples."""
    low, high = 1, int(per_class.sum()) // wanted
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if (per_class // middle).sum() >= wanted else (low, middle - 1)
    return low
