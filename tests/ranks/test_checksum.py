"""The number that ranks compare of their states."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fl_ddp.ranks.checksum import checksum

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.int32, torch.uint8, torch.bool)


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


def test_halves_and_tensors_that_change_places_are_seen() -> None:
    a, b = torch.arange(8.0), torch.arange(8.0, 16.0)
    assert checksum({"x": torch.cat([a, b])}) != checksum({"x": torch.cat([b, a])})
    assert checksum({"x": a, "y": b}) != checksum({"x": b, "y": a})


def test_a_scalar_a_slice_and_an_empty_state_have_one() -> None:
    assert checksum({"n": torch.tensor(3)}) != checksum({"n": torch.tensor(4)})
    assert checksum({"x": torch.arange(10.0)[::2]}) == checksum({"x": torch.arange(0.0, 10.0, 2)})
    assert checksum({}) == [0, 0, 0, 0]
