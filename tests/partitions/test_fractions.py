"""How fractions of samples become whole ones."""

from __future__ import annotations

import numpy as np

from fl_ddp.engine.seeds import generator
from fl_ddp.partitions import client_dirichlet
from fl_ddp.partitions.local_split import drawn_like


def test_what_a_client_still_lacks_is_taken_of_its_largest_shares_first() -> None:
    counts, left = np.array([1, 0, 0, 2]), np.array([9, 3, 9, 9])
    client_dirichlet._add(counts, left, 8, np.array([0.1, 0.5, 0.3, 0.1]), generator(0))
    assert counts.tolist() == [1, 3, 2, 2]
    assert left.tolist() == [9, 0, 7, 9]


def test_own_tests_of_the_test_set_are_rounded_to_the_nearest() -> None:
    """A quarter of 7 samples is 2, of 5 is 1, of 6 is 2 (half to even) and of 1 nothing."""
    labels = np.repeat(np.arange(4), [7, 5, 6, 1])
    test_labels = np.repeat(np.arange(4), 10)
    (own,) = drawn_like([np.arange(len(labels))], labels, test_labels, 0.25, generator(0))
    assert np.bincount(test_labels[own], minlength=4).tolist() == [2, 1, 2, 0]
