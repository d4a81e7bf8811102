"""The kernels in Triton's interpreter against torch in float64; run by test_in_triton.py, as Triton reads a variable
of the environment when it is imported."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import interpreter
from torch import Tensor

from fl_ddp.convolutions import in_triton, lane_by_lane
from fl_ddp.convolutions.forms import Geometry
from fl_ddp.convolutions.in_triton import Blocks

SMALL = Blocks(64, 32, 32, 4)
LARGE = Blocks(128, 64, 64, 4)
SHIPPED = [
    # channels, filters, side of the image and of the filters, stride, padding
    (1, 32, 28, 5, 1, 2), (32, 64, 14, 5, 1, 2), (3, 32, 32, 5, 1, 2), (32, 64, 16, 5, 1, 2), (3, 6, 32, 5, 1, 0),
    (6, 16, 14, 5, 1, 0), (1, 20, 28, 5, 1, 0), (20, 50, 12, 5, 1, 0), (3, 32, 32, 5, 1, 0), (32, 64, 14, 5, 1, 0),
    (3, 32, 32, 3, 1, 0), (32, 64, 30, 3, 1, 0), (32, 64, 14, 3, 1, 1), (3, 64, 32, 5, 1, 2), (64, 64, 16, 5, 1, 2),
    (3, 64, 32, 3, 1, 1), (64, 64, 32, 3, 1, 1), (64, 128, 32, 3, 2, 1), (128, 128, 16, 3, 1, 1),
    (64, 128, 32, 1, 2, 0), (128, 256, 16, 3, 2, 1), (256, 256, 8, 3, 1, 1), (128, 256, 16, 1, 2, 0),
    (256, 512, 8, 3, 2, 1), (512, 512, 4, 3, 1, 1), (256, 512, 8, 1, 2, 0), (3, 64, 64, 7, 2, 3),
]  # fmt: skip
"""The layers of the shipped models."""


@pytest.fixture(scope="module", autouse=True)
def interpreted() -> Iterator[None]:
    with interpreter():
        yield


def drawn(*shape: int) -> Tensor:
    """Numbers of a normal distribution, in float64."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))


def compare(
    lanes: int, batch: int, out: int, image: tuple[int, int, int], kernel: tuple[int, int], move: Geometry, tile: Blocks
) -> None:
    """The kernels with lane_by_lane in float64, which is compared with torch."""
    x, w = drawn(lanes, batch, *image), drawn(lanes, out, image[0], *kernel)
    dy = drawn(lanes, batch, out, *move.size(image[1:], kernel))
    geometry = tuple(map(list, move))
    for name, tensors in {"convolve": (x, w), "convolve_input": (dy, x, w), "convolve_weight": (dy, x, w)}.items():
        right = getattr(lane_by_lane, name)(*tensors, *geometry)
        found = getattr(in_triton, name)(*(t.float() for t in tensors), *geometry, blocks=tile)
        assert found.dtype == torch.float32
        assert (found - right).norm() <= 1e-5 * right.norm(), name


few, sides = st.integers(1, 2), st.integers(1, 3)
pairs = st.tuples(sides, sides)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(few, few, st.integers(1, 40), sides, st.integers(0, 3), st.integers(0, 3), pairs, pairs, pairs, pairs)
def test_any_small_convolution(
    lanes: int, batch: int, out: int, channels: int, more_rows: int, more_columns: int, kernel: tuple[int, int],
    stride: tuple[int, int], padding: tuple[int, int], dilation: tuple[int, int],
) -> None:  # fmt: skip
    around = (padding[0] - 1, padding[1] - 1)
    rows, columns = (max(d * (k - 1) + 1 - 2 * p, 1) for k, p, d in zip(kernel, around, dilation, strict=True))
    image = (channels, rows + more_rows, columns + more_columns)
    compare(lanes, batch, out, image, kernel, Geometry(stride, around, dilation), SMALL)


@pytest.mark.slow
@pytest.mark.parametrize(("channels", "filters", "side", "taps", "stride", "padding"), SHIPPED)
def test_layers_of_shipped_models(channels: int, filters: int, side: int, taps: int, stride: int, padding: int) -> None:
    move = Geometry((stride, stride), (padding, padding), (1, 1))
    compare(1, 2, filters, (channels, side, side), (taps, taps), move, LARGE)


def test_a_lanes_bits_depend_neither_on_its_company_nor_on_its_place() -> None:
    x, w, dy = (t.float() for t in (drawn(4, 2, 3, 5, 5), drawn(4, 6, 3, 3, 3), drawn(4, 2, 6, 5, 5)))
    geometry = [1, 1], [1, 1], [1, 1]
    for name, tensors in {"convolve": (x, w), "convolve_input": (dy, x, w), "convolve_weight": (dy, x, w)}.items():
        operator = getattr(in_triton, name)
        together = operator(*tensors, *geometry, blocks=SMALL)
        apart = operator(*(t[[3, 2]] for t in tensors), *geometry, blocks=SMALL)
        assert torch.equal(apart[1], together[2])
