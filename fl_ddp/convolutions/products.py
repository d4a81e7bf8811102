"""Lanes' convolutions on a GPU as matrix products of patches, one product for each lane and all of them in one call.

cuDNN takes a convolution with a group for each lane one group after another, and its way back to images is slow in
IEEE float32. docs/gpu.md has what an H100 and an H200 took for the layers of PflCNN, gradients in filters aside.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import fx

from fl_ddp.convolutions.writing import Found, Writer

Products = Literal["never", "measured", "always"]
"""Where layers are products: nowhere, where a GPU was seen to be faster by them, or on all ways that can be."""

_aten = torch.ops.aten

FEW_FILTERS = 8
"""Below them a product has so few rows that its patches cost more than they bring; depthwise layers have one."""
_MANY_PRODUCTS = 2**28
"""Of a lane's numbers, beyond which none was measured; cuDNN's kernel of one group then fills a GPU by itself."""


def goes_forward(layer: Found) -> bool:
    """Whether outputs are made so: of float32 on CUDA, if the layer is neither narrow nor large."""
    batch, (rows, columns) = len(layer.images.meta["val"]), layer.sides
    large = batch * rows * columns * layer.filters.meta["val"].numel() // layer.groups > _MANY_PRODUCTS
    return _on_cuda(layer) and layer.outs >= FEW_FILTERS and not large


def goes_back(layer: Found, where: Products) -> bool:
    """Whether gradients in images are, of a layer that goes forward so; as measured not in TF32, cuDNN being fast."""
    moves = zip(*layer.geometry[1:], layer.kernel, layer.sides, strict=True)
    fits = layer.geometry.stride == (1, 1) and all(p <= min(d * (k - 1), out) for p, d, k, out in moves)
    return fits and (where == "always" or in_ieee())


def in_ieee() -> bool:
    """Whether cuDNN multiplies float32 numbers as IEEE has it."""
    return str(torch.backends.cudnn.conv.fp32_precision) == "ieee"  # type: ignore[attr-defined]


def _on_cuda(layer: Found) -> bool:
    images: torch.Tensor = layer.images.meta["val"]
    return images.device.type == "cuda" and images.dtype == torch.float32


def patches(write: Writer, layer: Found) -> fx.Node:
    """What filters meet [G, C * kh * kw, B * H' * W'], written down."""
    images = write.of_lanes(layer.images, [1, 2, 0, 3, 4])
    (high, wide), (below, beside) = layer.geometry.padding, layer.geometry.dilation
    if high or wide:
        images = write.call(_aten.constant_pad_nd.default, images, [wide, wide, high, high], 0.0)
    for side, k, s, d in zip((3, 4), layer.kernel, layer.geometry.stride, (below, beside), strict=True):
        images = write.call(_aten.unfold.default, images, side, d * (k - 1) + 1, s)
    if below > 1:
        images = write.call(_aten.slice.Tensor, images, 5, 0, 2**62, below)
    if beside > 1:
        images = write.call(_aten.slice.Tensor, images, 6, 0, 2**62, beside)
    lanes, channels, batch, *sides, rows, columns = images.meta["val"].shape
    found = write.stored(write.call(_aten.permute.default, images, [0, 1, 5, 6, 2, 3, 4]))
    return write.call(_aten.reshape.default, found, [lanes, channels * rows * columns, batch * sides[0] * sides[1]])


def outputs(write: Writer, layer: Found, met: fx.Node) -> fx.Node:
    """Outputs [B, G * O, H', W']: filters [O, C * kh * kw] times the patches that they meet, by lane."""
    batch, (lanes, inner, _) = len(layer.images.meta["val"]), met.meta["val"].shape
    weights = write.call(_aten.reshape.default, layer.filters, [lanes, layer.outs, inner])
    found = write.call(_aten.bmm.default, weights, met)
    found = write.call(_aten.reshape.default, found, [lanes, layer.outs, batch, *layer.sides])
    return write.together(write.call(_aten.permute.default, found, [0, 2, 1, 3, 4]))


def by_lane(write: Writer, dy: fx.Node, layer: Found) -> fx.Node:
    """Gradient in outputs as [G, O, B * H' * W'], written down."""
    given = write.stored(write.of_lanes(dy, [1, 2, 0, 3, 4]))
    return write.call(_aten.reshape.default, given, [layer.groups, layer.outs, -1])


def filters_gradient(write: Writer, given: fx.Node, layer: Found, met: fx.Node) -> fx.Node:
    """Gradient [G * O, C, kh, kw] in filters: that in outputs times the patches that the filters met."""
    found = write.call(_aten.bmm.default, given, write.call(_aten.permute.default, met, [0, 2, 1]))
    return write.call(_aten.reshape.default, found, [*layer.filters.meta["val"].shape])


def images_gradient(write: Writer, given: fx.Node, layer: Found) -> fx.Node:
    """Gradient [B, G * C, H, W] in images: that in the patches, each number put where its pixel is, and summed."""
    lanes, outs, kernel = layer.groups, layer.outs, layer.kernel
    channels = layer.filters.meta["val"].shape[1]
    batch, taps = len(layer.images.meta["val"]), kernel[0] * kernel[1]
    weights = write.call(_aten.reshape.default, layer.filters, [lanes, outs, channels * taps])
    weights = write.call(_aten.permute.default, weights, [0, 2, 1])
    found = write.call(_aten.bmm.default, weights, given)
    found = write.call(_aten.reshape.default, found, [lanes, channels, taps, batch, *layer.sides])
    total: fx.Node | None = None
    for tap in range(taps):
        places = zip(divmod(tap, kernel[1]), *layer.geometry[1:], kernel, strict=True)
        (top, bottom), (left, right) = ((d * at - p, d * (k - 1 - at) - p) for at, p, d, k in places)
        part = write.call(_aten.select.int, found, 2, tap)
        part = write.call(_aten.constant_pad_nd.default, part, [left, right, top, bottom], 0.0)
        total = part if total is None else write.call(_aten.add.Tensor, total, part)
    assert total is not None
    return write.together(write.call(_aten.permute.default, total, [0, 2, 1, 3, 4]))
