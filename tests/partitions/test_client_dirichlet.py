"""ClientDirichlet: classes that no sample has, and clients that take more than they drew."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from fl_ddp.partitions.client_dirichlet import ClientDirichlet


@pytest.mark.parametrize("alpha", ["inf", 1e308])
def test_classes_without_samples_have_no_share(alpha: Literal["inf"] | float) -> None:
    labels = np.repeat([0, 2], 30)
    parts = ClientDirichlet(alpha=alpha).split(labels, 3, np.random.default_rng(0))
    assert [np.bincount(labels[part]).tolist() for part in parts] == [[10, 0, 10]] * 3


@pytest.mark.parametrize("seed", range(5))
def test_a_client_that_has_too_little_takes_what_it_does_not_have_yet(seed: int) -> None:
    (part,) = ClientDirichlet(min_size=6).split(np.repeat([0, 1], 3), 1, np.random.default_rng(seed))
    assert part.tolist() == [0, 1, 2, 3, 4, 5]
