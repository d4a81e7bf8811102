"""Dirichlet: who gets what where alpha is huge or clients have too little, and how often it draws."""

from __future__ import annotations

import numpy as np
import pytest

from fl_ddp.partitions.dirichlet import Dirichlet


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def test_a_huge_alpha_gives_to_those_alone_that_have_not_their_share_yet() -> None:
    parts = Dirichlet(alpha=1e308).split(np.repeat(np.arange(6), 4), 3, generator())
    assert [len(part) for part in parts] == [8, 8, 8]


def with_draws(monkeypatch: pytest.MonkeyPatch, counts: list[list[int]]) -> list[int]:
    """Let each draw be the same one; what comes back has an item for each that was made."""
    draws: list[int] = []

    def draw(*given: object) -> np.ndarray:
        draws.append(len(draws))
        return np.array(counts)

    monkeypatch.setattr("fl_ddp.partitions.dirichlet._draw", draw)
    return draws


def test_a_client_gives_of_its_commonest_class(monkeypatch: pytest.MonkeyPatch) -> None:
    with_draws(monkeypatch, [[5, 0], [20, 0]])
    labels = np.repeat([0, 1], [5, 20])
    parts = Dirichlet(min_size=3).split(labels, 2, generator())
    assert [np.bincount(labels[part], minlength=2).tolist() for part in parts] == [[5, 17], [0, 3]]


@pytest.mark.parametrize(("counts", "draws"), [([[3, 1]], 21), ([[2, 2]], 1)])
def test_a_division_is_drawn_anew_twenty_times_where_a_client_has_too_little(
    monkeypatch: pytest.MonkeyPatch, counts: list[list[int]], draws: int
) -> None:
    made = with_draws(monkeypatch, counts)
    parts = Dirichlet(min_size=2).split(np.zeros(4, np.int64), 2, generator())
    assert len(made) == draws and [len(part) for part in parts] == [2, 2]
