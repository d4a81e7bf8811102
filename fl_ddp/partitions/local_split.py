"""Each client's own test data."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fl_ddp.partitions.partition import overlapping, parts_of
from fl_ddp.protocol import Indices


def local_split(
    clients: Sequence[Indices], share: float, rng: np.random.Generator
) -> tuple[list[Indices], list[Indices]]:
    """Keep a share of each client's samples aside, chosen at random.

    Where clients overlap, samples are kept aside for all of them at once, so that nobody trains on another's test data;
    then the share holds on average, not for each client.

    Args:
        clients: sample indices of each client, ascending.
        share: of the samples kept aside, 0 <= share < 1, rounded to whole samples; one training sample always stays.
        rng: source of all randomness.

    Returns:
        training indices and test indices of each client, ascending; a small client's test part may be empty.
    """
    assert 0 <= share < 1
    if overlapping(clients):
        return _of_overlapping(clients, share, rng)
    sizes = np.array([len(client) for client in clients], np.int64)
    kept_aside = np.minimum(np.rint(share * sizes).astype(np.int64), np.maximum(sizes - 1, 0))
    samples, owner = np.concatenate([*clients, np.empty(0, np.int64)]), np.repeat(np.arange(len(sizes)), sizes)
    shuffled = np.lexsort((rng.random(len(samples)), owner))  # by client, at random within one
    rank = np.empty(len(samples), np.int64)
    rank[shuffled] = np.arange(len(samples)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    is_test = rank < kept_aside[owner]
    train, test = (
        [samples[part] for part in parts_of(np.where(chosen, owner, -1), len(sizes))] for chosen in (~is_test, is_test)
    )
    return train, test


def drawn_like(
    clients: Sequence[Indices], labels: Indices, test_labels: Indices, share: float, rng: np.random.Generator
) -> list[Indices]:
    """Test samples for each client in its shares of the classes, whatever others have.

    Args:
        clients: training indices of each client.
        labels: of the training set.
        test_labels: of the test set.
        share: number of test samples of a class for each training sample of it, rounded; at most all there are.
        rng: source of all randomness.

    Returns:
        indices into the test set of each client, ascending.

    Source: github.com/thu-media/FedCL, data/cifar_data.py (1,000 q_i test images beside 5,000 q_i for training).
    """
    classes = [np.flatnonzero(test_labels == label) for label in range(int(np.max(labels)) + 1)]
    parts = []
    for client in clients:
        wanted = np.rint(share * np.bincount(labels[client], minlength=len(classes))).astype(np.int64)
        drawn = [rng.choice(pool, min(n, len(pool)), False) for pool, n in zip(classes, wanted, strict=True) if n]
        parts.append(np.sort(np.concatenate([*drawn, np.empty(0, np.int64)])))
    return parts


def _of_overlapping(
    clients: Sequence[Indices], share: float, rng: np.random.Generator
) -> tuple[list[Indices], list[Indices]]:
    drawn = rng.random(1 + max(int(client[-1]) for client in clients if len(client)))
    aside = drawn < share
    for client in clients:
        if len(client) and aside[client].all():
            aside[client[np.argmax(drawn[client])]] = False  # one training sample always stays
    return [client[~aside[client]] for client in clients], [client[aside[client]] for client in clients]
