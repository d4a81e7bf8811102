"""The form in which lanes are convolved on a CPU, by size alone: bits must depend on nothing else.

vmap makes one convolution with a group for each lane of theirs. That is the fastest form of small convolutions, and for
one channel the only one that is not slow. Large ones are as fast when each lane passes through the cache by itself, and
what stands between them is faster then: the compiler puts channels last around convolutions of its own. Those
with many filters for few pixels, or of single pixels, are matrix products, which need not bring the filters into
oneDNN's order first. Measured with one thread for the layers of the shipped models, batches of 4 and 10.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from torch import Tensor

Form = Literal["grouped", "onednn", "product"]
"""All lanes in one call, or one lane after another: by oneDNN, or by a matrix product of patches."""

_FEW_CHANNELS = 4
_MANY_PRODUCTS = 2**26
_FILTERS_OF_A_POSITION = 2


class Geometry(NamedTuple):
    """How a convolution moves over images, height first: pixels from patch to patch, around, and within a patch."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    @classmethod
    def of(cls, *lists: Sequence[int]) -> Geometry:
        """From stride, padding and dilation as torch's operators have them."""
        return cls(*((each[0], each[-1]) for each in lists))

    def size(self, image: tuple[int, int], kernel: tuple[int, int]) -> tuple[int, int]:
        """Height and width of the output for those of the input and of the filters."""
        height, width = (
            (side + 2 * p - d * (k - 1) - 1) // s + 1
            for side, k, s, p, d in zip(image, kernel, self.stride, self.padding, self.dilation, strict=True)
        )
        return height, width


def form(x: Tensor, w: Tensor, geometry: Geometry) -> Form:
    """The form for lanes' images x [G, B, C, H, W] and filters w [G, O, C, kh, kw]; G does not count."""
    _, batch, channels, height, width = x.shape
    _, out, _, *kernel = w.shape
    rows, columns = geometry.size((height, width), (kernel[0], kernel[1]))
    positions, taps = batch * rows * columns, kernel[0] * kernel[1]
    if channels == 1:
        return "grouped"
    if taps == 1 or out >= _FILTERS_OF_A_POSITION * positions:
        return "product"
    if channels < _FEW_CHANNELS or positions * out * channels * taps >= _MANY_PRODUCTS:
        return "onednn"
    return "grouped"
