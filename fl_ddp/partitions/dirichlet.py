"""Label skew drawn from a Dirichlet distribution."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from fl_ddp.bounds import Positive
from fl_ddp.partitions.partition import Partition, parts_of
from fl_ddp.protocol import Counts, Indices

REDRAWS = 20


@dataclass(frozen=True)
class Dirichlet(Partition):
    """Each class is divided among the clients in proportions drawn from Dirichlet(alpha).

    A client that already holds N / num_clients samples gets nothing of further classes. A division with a client below
    min_size is drawn anew, at most 20 times; then the largest clients give samples of their commonest class to those
    with too few, so that it always ends.

    Attributes:
        alpha: concentration; small is skewed (0.1: few labels each), large is even.

    Source: Li et al. 2022, arXiv:2102.02079 (NIID-Bench); Yurochkin et al. 2019; the same code in MOON.
    """

    alpha: Positive = 0.5

    def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Indices]:
        """See Partition.split."""
        per_class = np.bincount(labels)
        for _ in range(1 + REDRAWS):
            counts = _draw(per_class, num_clients, self.alpha, rng)
            if np.min(counts.sum(axis=0)) >= self.min_size:
                break
        else:
            _fill_up(counts, self.min_size)
        owner = np.empty(len(labels), np.int64)
        shuffled = rng.permutation(len(labels))
        by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
        owner[by_class] = np.repeat(np.tile(np.arange(num_clients), len(per_class)), counts.ravel())
        return parts_of(owner, num_clients)


def _draw(per_class: Indices, num_clients: int, alpha: float, rng: np.random.Generator) -> Indices:
    """Samples of each class that each client gets, [C, num_clients]."""
    counts = np.zeros((len(per_class), num_clients), np.int64)
    sizes = np.zeros(num_clients, np.int64)
    for label in np.flatnonzero(per_class):
        room = sizes * num_clients < per_class.sum()  # some client has less than the mean while samples are left
        shares = rng.dirichlet(np.full(num_clients, alpha)) * room
        if shares.sum() == 0:
            # A tiny alpha gives everything to one client, which was full: to another. A huge one underflows: to all.
            open_to = np.flatnonzero(room)
            shares = room.astype(float) if alpha > 1 else np.eye(1, num_clients, int(rng.choice(open_to)))[0]
        ends = np.cumsum(shares)
        counts[label] = np.diff(np.floor(ends / ends[-1] * per_class[label]).astype(np.int64), prepend=0)
        sizes += counts[label]
    return counts


def _fill_up(counts: Counts, min_size: int) -> None:
    """Move samples in counts [C, num_clients] from the largest clients, one class at a time, until none has too few."""
    sizes = counts.sum(axis=0)
    donors = [(-int(sizes[client]), int(client)) for client in np.flatnonzero(sizes > min_size)]
    heapq.heapify(donors)
    for client in np.flatnonzero(sizes < min_size):
        while (missing := min_size - int(counts[:, client].sum())) > 0:
            size, donor = heapq.heappop(donors)
            label = np.argmax(counts[:, donor])
            moved = min(missing, int(counts[label, donor]), -size - min_size)
            counts[label, donor] -= moved
            counts[label, client] += moved
            if -size - moved > min_size:
                heapq.heappush(donors, (size + moved, donor))
