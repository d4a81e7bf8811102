"""Samples that do not come out even go to clients that are drawn."""

from __future__ import annotations

import numpy as np
import pytest

from fl_ddp.partitions.classes import Classes
from fl_ddp.partitions.client_dirichlet import ClientDirichlet, _counts_apart
from fl_ddp.partitions.partition import Partition


def generator(seed: int) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize(
    "partition", [Classes(classes_per_client=1), ClientDirichlet(alpha="inf", overlap=False)], ids=str
)
def test_who_has_a_sample_more_than_others_is_drawn(partition: Partition) -> None:
    drawn = [partition.split(np.zeros(1003, np.int64), 10, generator(seed)) for seed in range(5)]
    larger = {tuple(i for i, part in enumerate(parts) if len(part) == 101) for parts in drawn}
    assert len(larger) > 1 and all(len(those) == 3 for those in larger)


def test_who_turns_first_to_what_is_left_is_drawn() -> None:
    """Three clients want all of one class: shared out in thirds, one sample is left over; so is one of the other."""
    shares, pool = np.tile([1.0, 0.0], (3, 1)), np.array([4, 2])
    counts = [_counts_apart(shares, pool, generator(seed)) for seed in range(20)]
    assert len({tuple(each[:, 0]) for each in counts}) == 3
