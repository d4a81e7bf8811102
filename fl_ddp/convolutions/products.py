"""Lanes' convolutions on a GPU as matrix products of patches, one product for each lane and all of them in one call.

cuDNN takes a convolution with a group for each lane one group after another, and its way back to images is slow in
IEEE float32. docs/gpu.md has what an H100 and an H200 took for the layers of PflCNN.
"""

from __future__ import annotations

from math import ceil

import torch
from torch import fx

from fl_ddp.convolutions.writing import Found, Writer

_aten = torch.ops.aten

FEW_FILTERS = 8
"""Below them a product has so few rows that its patches cost more than they bring; depthwise layers have one."""
_MANY_PRODUCTS = 2**29
"""Multiplications of a lane, beyond which none was measured; cuDNN's kernel of one group then fills a GPU by itself."""
_BLOCK = 64
"""Filters, and numbers that a filter meets, that one of cuBLAS's programs takes at a time."""
_PROGRAMS = {"ieee": 10, "tf32": 5}
"""Programs of a lane's gradient in filters at least, by how they multiply, if the batch has so many samples.

With fewer, most of a GPU waits for some that sum over all samples: 32 filters' of 27 numbers each take 0.35 ms in IEEE
by one program a lane, 0.05 by ten (docs/gpu.md).
"""


def goes_forward(layer: Found) -> bool:
    """Whether outputs are made so: of float32 on CUDA, if the layer is neither narrow nor large."""
    batch, (rows, columns) = len(layer.images.meta["val"]), layer.sides
    large = batch * rows * columns * layer.filters.meta["val"].numel() // layer.groups > _MANY_PRODUCTS
    return _on_cuda(layer) and layer.outs >= FEW_FILTERS and not large


def goes_back(layer: Found) -> bool:
    """Whether gradients in images are, of a layer that goes forward so."""
    moves = zip(*layer.geometry[1:], layer.kernel, layer.sides, strict=True)
    return layer.geometry.stride == (1, 1) and all(p <= min(d * (k - 1), out) for p, d, k, out in moves)


def in_ieee() -> bool:
    """Whether cuDNN multiplies float32 numbers as IEEE has it."""
    return str(torch.backends.cudnn.conv.fp32_precision) == "ieee"  # type: ignore[attr-defined]


def _on_cuda(layer: Found) -> bool:
    images: torch.Tensor = layer.images.meta["val"]
    return images.device.type == "cuda" and images.dtype == torch.float32


def pieces(layer: Found) -> int:
    """Into how many parts S of the same size a batch is cut, each with products of its own."""
    batch, (_, channels, *kernel) = len(layer.images.meta["val"]), layer.filters.meta["val"].shape
    programs = ceil(layer.outs / _BLOCK) * ceil(channels * kernel[0] * kernel[1] / _BLOCK)
    least = ceil(_PROGRAMS["ieee" if in_ieee() else "tf32"] / programs)
    return next(parts for parts in range(min(least, batch), batch + 1) if batch % parts == 0)


def patches(write: Writer, layer: Found) -> fx.Node:
    """What filters meet [G * S, C * kh * kw, B / S * H' * W'], written down."""
    images = write.in_pieces(layer.images, pieces(layer), [2, 3, 0, 1, 4, 5])
    (high, wide), (below, beside) = layer.geometry.padding, layer.geometry.dilation
    if high or wide:
        images = write.call(_aten.constant_pad_nd.default, images, [wide, wide, high, high], 0.0)
    for side, k, s, d in zip((4, 5), layer.kernel, layer.geometry.stride, (below, beside), strict=True):
        images = write.call(_aten.unfold.default, images, side, d * (k - 1) + 1, s)
    if below > 1:
        images = write.call(_aten.slice.Tensor, images, 6, 0, 2**62, below)
    if beside > 1:
        images = write.call(_aten.slice.Tensor, images, 7, 0, 2**62, beside)
    lanes, channels, parts, batch, *sides, rows, columns = images.meta["val"].shape
    found = write.stored(write.call(_aten.permute.default, images, [0, 2, 1, 6, 7, 3, 4, 5]))
    shape = [lanes * parts, channels * rows * columns, batch * sides[0] * sides[1]]
    return write.call(_aten.reshape.default, found, shape)


def outputs(write: Writer, layer: Found, met: fx.Node) -> fx.Node:
    """Outputs [B, G * O, H', W']: filters [O, C * kh * kw] times the patches that they meet, by lane."""
    found = write.call(_aten.bmm.default, _filters_of_pieces(write, layer), met)
    shape = [layer.groups, pieces(layer), layer.outs, -1, *layer.sides]
    return write.whole(write.call(_aten.reshape.default, found, shape))


def by_lane(write: Writer, dy: fx.Node, layer: Found) -> fx.Node:
    """Gradient in outputs as [G * S, O, B / S * H' * W'], written down."""
    given = write.stored(write.in_pieces(dy, pieces(layer), [2, 0, 3, 1, 4, 5]))
    return write.call(_aten.reshape.default, given, [layer.groups * pieces(layer), layer.outs, -1])


def filters_gradient(write: Writer, given: fx.Node, layer: Found, met: fx.Node) -> fx.Node:
    """Gradient [G * O, C, kh, kw] in filters: that in outputs times the patches that the filters met, and summed."""
    found = write.call(_aten.bmm.default, given, write.call(_aten.permute.default, met, [0, 2, 1]))
    found = write.call(_aten.reshape.default, found, [layer.groups, pieces(layer), layer.outs, -1])
    parts = [write.call(_aten.select.int, found, 1, each) for each in range(pieces(layer))]
    return write.call(_aten.reshape.default, write.summed(parts), [*layer.filters.meta["val"].shape])


def images_gradient(write: Writer, given: fx.Node, layer: Found) -> fx.Node:
    """Gradient [B, G * C, H, W] in images: that in the patches, each number put where its pixel is, and summed."""
    kernel, taps = layer.kernel, layer.kernel[0] * layer.kernel[1]
    weights = write.call(_aten.permute.default, _filters_of_pieces(write, layer), [0, 2, 1])
    found = write.call(_aten.bmm.default, weights, given)
    channels = layer.filters.meta["val"].shape[1]
    shape = [layer.groups, pieces(layer), channels, taps, -1, *layer.sides]
    found = write.call(_aten.reshape.default, found, shape)
    parts = []
    for tap in range(taps):
        places = zip(divmod(tap, kernel[1]), *layer.geometry[1:], kernel, strict=True)
        (top, bottom), (left, right) = ((d * at - p, d * (k - 1 - at) - p) for at, p, d, k in places)
        part = write.call(_aten.select.int, found, 3, tap)
        parts.append(write.call(_aten.constant_pad_nd.default, part, [left, right, top, bottom], 0.0))
    return write.whole(write.summed(parts))


def _filters_of_pieces(write: Writer, layer: Found) -> fx.Node:
    """Filters [G * S, O, C * kh * kw], those of a lane for each of its pieces."""
    lanes, parts = layer.groups, pieces(layer)
    weights = write.call(_aten.reshape.default, layer.filters, [lanes, 1, layer.outs, -1])
    weights = write.call(_aten.expand.default, weights, [lanes, parts, *weights.meta["val"].shape[2:]])
    return write.call(_aten.reshape.default, write.stored(weights), [lanes * parts, layer.outs, -1])
