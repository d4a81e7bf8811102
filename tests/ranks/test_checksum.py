"""The number that ranks compare of their states."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fl_ddp.ranks import checksum as module

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)


def checksum(tensors: dict[str, Tensor]) -> list[int]:
    """The four numbers."""
    found: list[int] = module.checksum(tensors).tolist()
    return found


def state(seed: int, sizes: list[int]) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(seed)
    drawn = [torch.randint(0, 2, (n,), generator=random) for n in sizes]
    return {str(i): t.to(DTYPES[(seed + i) % len(DTYPES)]) for i, t in enumerate(drawn)}


@given(st.integers(0, 2**31), st.lists(st.integers(0, 40), min_size=1, max_size=5), st.data())
@settings(max_examples=100, deadline=None)
def test_one_bit_more_or_less_changes_it(seed: int, sizes: list[int], data: st.DataObject) -> None:
    tensors = state(seed, sizes)
    mark = checksum(tensors)
    assert mark == checksum({name: t.clone() for name, t in tensors.items()})
    assert all(0 <= piece < 2**16 for piece in mark)
    filled = [name for name, t in tensors.items() if t.numel()]
    if filled:
        raw = tensors[data.draw(st.sampled_from(filled))].view(torch.uint8)
        place = data.draw(st.integers(0, raw.numel() - 1))
        raw[place] ^= 1
        assert checksum(tensors) != mark


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "all signs": lambda t: -t,
    "two signs": lambda t: torch.cat([-t[:1], t[1:-1], -t[-1:]]),
    "two neighbours' signs": lambda t: torch.cat([-t[:2], t[2:]]),
    "rows swapped": lambda t: torch.cat([t[1:2], t[:1], t[2:]]),
    "rows rolled": lambda t: t.roll(1, 0),
    "rows reversed": lambda t: t.flip(0),
    "columns swapped": lambda t: torch.cat([t[:, 1:2], t[:, :1], t[:, 2:]], 1),
    "two numbers swapped": lambda t: t.flatten()[[1, 0, *range(2, t.numel())]].view_as(t),
    "halves swapped": lambda t: torch.cat([t[len(t) // 2 :], t[: len(t) // 2]]),
    "transposed": lambda t: t.mT.contiguous().view_as(t),
    "a corner's rectangle of signs": lambda t: t * (1 - 2 * torch.outer(_ends(len(t)), _ends(t.shape[1]))),
    "all doubled": lambda t: 2 * t,
}


def _ends(n: int) -> Tensor:
    ends = torch.zeros(n)
    ends[[0, -1]] = 1
    return ends


@pytest.mark.parametrize("shape", [(4, 6), (10, 64), (64, 64), (130, 127), (3, 4096), (20, 2)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("change", CHANGES)
def test_changes_that_cancel_in_a_plain_sum_are_seen(change: str, dtype: torch.dtype, shape: tuple[int, int]) -> None:
    for whole in (False, True):
        t = torch.randn(*shape, generator=torch.Generator().manual_seed(1))
        t = (torch.round(t) + 0.5 if whole else t).to(dtype)
        changed = CHANGES[change](t).to(dtype)
        assert not torch.equal(t, changed)
        assert checksum({"v": t}) != checksum({"v": changed})


def test_all_of_a_large_tensor_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    t = torch.arange(50_000)
    mark = checksum({"t": t})
    for place in (0, 4095, 4096, 8191, 8192, 30_000, 49_999):
        other = t.clone()
        other[place] += 1
        assert checksum({"t": other}) != mark
    blocks = t.view(-1, 5000)[[1, 0, *range(2, 10)]].reshape(-1)
    assert checksum({"t": blocks}) != mark


def test_tensors_that_change_places_names_types_or_shapes_are_seen() -> None:
    a, b = torch.arange(8.0), torch.arange(8.0, 16.0)
    assert checksum({"x": a, "y": b}) != checksum({"x": b, "y": a})
    assert checksum({"x": a}) != checksum({"y": a})
    assert checksum({"x": a}) != checksum({"x": a.view(2, 4)})
    assert checksum({"x": torch.zeros(4)}) != checksum({"x": torch.zeros(4, dtype=torch.int32)})


def test_a_scalar_a_slice_and_an_empty_state_have_one() -> None:
    assert checksum({"n": torch.tensor(3)}) != checksum({"n": torch.tensor(4)})
    assert checksum({"x": torch.arange(10.0)[::2]}) == checksum({"x": torch.arange(0.0, 10.0, 2)})
    assert checksum({}) == [0, 0, 0, 0]
