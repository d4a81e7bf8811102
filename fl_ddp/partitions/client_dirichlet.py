"""Label skew drawn for each client by itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from fl_ddp.bounds import Positive
from fl_ddp.partitions.partition import Partition, parts_of
from fl_ddp.protocol import Counts, Indices

Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ClientDirichlet(Partition):
    """Every client draws shares q of the classes from Dirichlet(alpha) and takes them of n = N // num_clients samples.

    With overlap it takes int(n * q) random samples of each class, or all there are, whatever others have:
    one sample may be in several clients and some are in none. Without, clients that want more of a class than it holds
    share it in proportion and turn to their other classes; then nothing is left over and sizes differ by at most one.

    Attributes:
        alpha: concentration; small is skewed (0.1: few labels each), large is even, inf takes the same of all classes.
        overlap: whether one sample may be in several clients.

    Source: Yao and Sun 2020 (FedCL), Section 4, and github.com/thu-media/FedCL, data/cifar_data.py (with overlap; 10
    clients: n = 5,000 of CIFAR-10, 6,000 of MNIST); the shares are those of Hsu et al. 2019, arXiv:1909.06335.
    """

    alpha: Literal["inf"] | Positive = 1.0
    overlap: bool = True

    def divide(self, labels: Indices, num_clients: int, rng: np.random.Generator) -> list[Counts]:
        """See Partition.split."""
        pool = np.bincount(labels)
        shares = self._shares(pool > 0, num_clients, rng)
        shuffled = rng.permutation(len(labels))
        by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
        if not self.overlap:
            counts = _counts_apart(shares, pool, rng)
            owner = np.empty(len(labels), np.int64)
            owner[by_class] = np.repeat(np.tile(np.arange(num_clients), len(pool)), counts.T.ravel())
            return parts_of(owner, num_clients)
        counts = np.minimum((len(labels) // num_clients * shares).astype(np.int64), pool)
        for client in np.flatnonzero(counts.sum(axis=1) < self.min_size):
            _add(counts[client], pool - counts[client], self.min_size, shares[client], rng)
        classes = np.split(by_class, np.cumsum(pool)[:-1])
        return [
            np.sort(np.concatenate([rng.choice(classes[c], row[c], False, shuffle=False) for c in np.flatnonzero(row)]))
            for row in counts
        ]

    def _shares(self, present: npt.NDArray[np.bool_], num_clients: int, rng: np.random.Generator) -> Shares:
        """Shares q [num_clients, C] of the classes that there are."""
        shares = np.zeros((num_clients, len(present)))
        alpha = float(self.alpha)
        if alpha == math.inf:
            shares[:, present] = 1 / present.sum()
            return shares
        drawn = rng.dirichlet(np.full(present.sum(), alpha), num_clients)
        shares[:, present] = np.where(drawn.any(axis=1, keepdims=True), drawn, 1 / present.sum())  # huge: underflow
        return shares


def _counts_apart(shares: Shares, pool: Counts, rng: np.random.Generator) -> Counts:
    """Samples of each class that each client gets, [num_clients, C], all of the pool [C] together."""
    num_clients = len(shares)
    sizes = rng.permutation((np.arange(num_clients) + pool.sum()) // num_clients)
    counts, left = np.zeros(shares.shape, np.int64), pool.copy()
    for _ in pool:  # each time a class is used up, or everybody has what they want of it but for fractions
        wanted = shares * (left > 0)
        total = wanted.sum(axis=1, keepdims=True)
        wanted *= (sizes - counts.sum(axis=1))[:, None] / np.where(total > 0, total, 1)
        taken = np.floor(wanted * np.minimum(1, left / np.maximum(wanted.sum(axis=0), 1))).astype(np.int64)
        counts += taken
        left -= taken.sum(axis=0)
    for client in rng.permutation(np.flatnonzero(counts.sum(axis=1) < sizes)):
        _add(counts[client], left, sizes[client], shares[client], rng)
    return counts


def _add(counts: Counts, left: Counts, size: int, shares: Shares, rng: np.random.Generator) -> None:
    """Raise one client's counts [C] to a size, from what is left [C], its largest shares first; both in place."""
    missing = size - int(counts.sum())
    for label in np.lexsort((rng.random(len(shares)), -shares)):
        moved = min(missing, int(left[label]))
        counts[label] += moved
        left[label] -= moved
        missing -= moved
