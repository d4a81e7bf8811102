"""Rows of clients come in the cohort's order, exactly, however the clients are dealt."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fl_ddp.engine.transfer import Readings
from fl_ddp.errors import DivergedError, RunError
from fl_ddp.protocol import Tensors
from fl_ddp.ranks.cohort_rows import CohortRows, hear_finite

IDS = np.array([2, 3, 5, 11, 12])
ROWS: Tensors = {
    "model": torch.randn(5, 7, generator=torch.Generator().manual_seed(0)),
    "seen": torch.arange(10).view(5, 2),
    "fine": torch.tensor([0.0, 5e-324, 2.0**-1074, 1e300, -3.0], dtype=torch.float64),
}


def added(ranks: Sequence[CohortRows]) -> list[Tensor]:
    """The sums of what ranks have."""
    return [torch.stack(parts).sum(0) for parts in zip(*(rows.parts() for rows in ranks), strict=True)]


def gathered(hands: Sequence[Sequence[int]], lanes: int, dtype: torch.dtype = torch.float64) -> Tensors:
    """Rows of clients dealt to ranks by their places in IDS, in groups of lanes; the ranks' parts are added."""
    ranks = [CohortRows(IDS, dtype) for _ in hands]
    for rows, hand in zip(ranks, hands, strict=True):
        for i in range(0, max(len(hand), 1), lanes):
            places = list(hand[i : i + lanes])
            empty = lanes - len(places)
            clients = np.concatenate([IDS[places], np.full(empty, -1)]).astype(np.int64)
            padded = {
                n: torch.cat([t[places], torch.full_like(t[:1], 9).expand(empty, *t.shape[1:])])
                for n, t in ROWS.items()
            }
            rows.add(padded, clients, [str(c) for c in clients])
    return ranks[0].totals(added(ranks))


@given(st.permutations(range(5)), st.integers(1, 4), st.integers(1, 6), st.data())
def test_dealing_and_grouping_do_not_matter(order: list[int], num_ranks: int, lanes: int, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, 5), min_size=num_ranks - 1, max_size=num_ranks - 1)))
    hands = np.split(np.array(order), cuts)
    found = gathered([[int(i) for i in hand] for hand in hands], lanes)
    assert found.keys() == ROWS.keys()
    for name, t in ROWS.items():
        assert found[name].dtype == t.dtype
        assert torch.equal(found[name], t), name


def test_a_negative_zero_is_positive_on_any_number_of_ranks() -> None:
    for hands in ([[0]], [[0], []]):
        ranks = [CohortRows(IDS[:1], torch.float64) for _ in hands]
        for rows, hand in zip(ranks, hands, strict=True):
            clients = np.array([2 if hand else -1])
            rows.add({"x": torch.tensor([[-0.0]])}, clients, [""])
        assert not torch.signbit(ranks[0].totals(added(ranks))["x"]).any()


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_a_row_that_is_not_finite_names_its_client(bad: float) -> None:
    rows = CohortRows(IDS, torch.float64)
    t = torch.zeros(3, 4)
    t[2, 1] = bad
    with pytest.raises(DivergedError, match=r"^round 3, client 5: 'head' is not finite; a smaller --lr usually helps$"):
        rows.add({"head": t}, np.array([2, -1, 5]), ["round 3, client 2", "", "round 3, client 5"])
    t[2, 1], t[1, 0] = 0, bad
    rows.add({"head": t}, np.array([2, -1, 5]), ["", "", ""])
    assert rows.totals(rows.parts())["head"].isfinite().all(), "a padded lane's row is nobody's"


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf])
def test_memory_that_is_not_finite_names_its_client(bad: float) -> None:
    kept, real = {"steps": torch.ones(3), "none": torch.zeros(3, 0), "own": torch.zeros(3, 4, 2)}, torch.ones(3)
    hear_finite(kept, real, ["a", "b", "c"], Readings())
    kept["own"][1, 3, 0] = bad
    with pytest.raises(DivergedError, match=r"^b: 'own' in its memory, finite at first, is not finite; a smaller"):
        hear_finite(kept, real, ["a", "b", "c"], Readings())
    hear_finite(kept, torch.tensor([1.0, 0, 1]), ["a", "", "c"], Readings())


def test_without_rows_nothing_is_added() -> None:
    rows = CohortRows(IDS, torch.float64)
    rows.add({}, IDS, [""] * 5)
    assert rows.parts() == [] and rows.totals([]) == {}


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("buffer", "most"), [(torch.float64, 2**53), (torch.float32, 2**24)])
def test_whole_numbers_that_a_row_cannot_hold_are_refused(buffer: torch.dtype, most: int, sign: int) -> None:
    rows, names = CohortRows(IDS, buffer), [str(client) for client in IDS]
    rows.add({"seed": torch.full((5,), sign * most), "flag": torch.ones(5, dtype=torch.bool)}, IDS, names)
    assert rows.totals(rows.parts())["seed"].tolist() == [sign * most] * 5
    seeds = torch.tensor([1, 2, sign * (most + 1), 4, 5])
    with pytest.raises(RunError, match=rf"^5: 'hash' has a whole number beyond {most:,}, up to which"):
        rows.add({"hash": seeds}, IDS, names)


@pytest.mark.parametrize("buffer", [torch.float64, torch.float32])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_whole_numbers_of_all_types_may_be_rows(dtype: torch.dtype, buffer: torch.dtype) -> None:
    rows = CohortRows(IDS, buffer)
    sent = torch.tensor([0, 1, 127, 2, 3]).to(dtype)
    rows.add({"sign": sent}, IDS, [str(client) for client in IDS])
    given = rows.totals(rows.parts())["sign"]
    assert torch.equal(given, sent) and given.dtype == dtype
