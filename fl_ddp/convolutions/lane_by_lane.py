"""Convolutions of lanes one lane after another on a CPU, as operators that the compiler takes as they are.

Images are x [G, B, C, H, W], filters w [G, O, C, kh, kw], outputs y [G, B, O, H', W'].
"""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor
from torch.nn import functional as F

from fl_ddp.convolutions.forms import Geometry, form

_aten = torch.ops.aten
_library = torch.library.Library("fl_ddp", "FRAGMENT")  # type: ignore[no-untyped-call]
_GEOMETRY = "int[] stride, int[] padding, int[] dilation"


def _define(name: str, given: str) -> None:
    signature = f"{name}({given}, {_GEOMETRY}) -> Tensor"
    _library.define(signature, tags=(torch.Tag.needs_fixed_stride_order,))  # type: ignore[no-untyped-call]


def _patches(x: Tensor, kernel: tuple[int, int], geometry: Geometry) -> Tensor:
    """What each filter meets [C * kh * kw, B * H' * W'] in one lane's images [B, C, H, W]."""
    if kernel == (1, 1) and geometry.padding == (0, 0):
        rows, columns = geometry.stride
        return x[:, :, ::rows, ::columns].transpose(0, 1).reshape(x.shape[1], -1)
    return F.unfold(x, kernel, geometry.dilation, geometry.padding, geometry.stride).transpose(0, 1).flatten(1)


def _images(patches: Tensor, like: torch.Size, kernel: tuple[int, int], geometry: Geometry) -> Tensor:
    """The sum [B, C, H, W] of patches [C * kh * kw, B * H' * W'], each pixel where it was taken from."""
    batch, channels, height, width = like
    if kernel == (1, 1) and geometry.padding == (0, 0):
        rows, columns = geometry.stride
        images = patches.new_zeros(like)
        seen = images[:, :, ::rows, ::columns]
        seen.copy_(patches.view(channels, batch, *seen.shape[2:]).transpose(0, 1))
        return images
    by_image = patches.view(len(patches), batch, -1).transpose(0, 1)
    return F.fold(by_image, (height, width), kernel, geometry.dilation, geometry.padding, geometry.stride)


def _outputs(images: Tensor) -> Tensor:
    """One lane's outputs [B, O, H', W'] as [O, B * H' * W']."""
    return images.transpose(0, 1).reshape(images.shape[1], -1)


def _kernel(w: Tensor) -> tuple[int, int]:
    return w.shape[3], w.shape[4]


def convolve(x: Tensor, w: Tensor, stride: list[int], padding: list[int], dilation: list[int]) -> Tensor:
    """Outputs of all lanes."""
    geometry, kernel = Geometry.of(stride, padding, dilation), _kernel(w)
    y = like_output(x, w, stride, padding, dilation)
    by_product = form(x, w, geometry) == "product"
    for own, image, filters in zip(y, x, w, strict=True):
        if by_product:
            product = filters.flatten(1) @ _patches(image, kernel, geometry)
            own.copy_(product.view(len(filters), len(image), *y.shape[3:]).transpose(0, 1))
        else:
            own.copy_(F.conv2d(image, filters, None, *geometry))
    return y


def convolve_input(
    dy: Tensor, x: Tensor, w: Tensor, stride: list[int], padding: list[int], dilation: list[int]
) -> Tensor:
    """Gradients in all lanes' images."""
    geometry, kernel = Geometry.of(stride, padding, dilation), _kernel(w)
    dx = torch.empty_like(x)
    by_product = form(x, w, geometry) == "product"
    for own, gradient, image, filters in zip(dx, dy, x, w, strict=True):
        if by_product:
            patches = filters.flatten(1).t() @ _outputs(gradient)
            own.copy_(_images(patches, image.shape, kernel, geometry))
        else:
            own.copy_(_backward(gradient, image, filters, geometry, 0))
    return dx


def convolve_weight(
    dy: Tensor, x: Tensor, w: Tensor, stride: list[int], padding: list[int], dilation: list[int]
) -> Tensor:
    """Gradients in all lanes' filters."""
    geometry, kernel = Geometry.of(stride, padding, dilation), _kernel(w)
    dw = torch.empty_like(w)
    by_product = form(x, w, geometry) == "product"
    for own, gradient, image, filters in zip(dw, dy, x, w, strict=True):
        if by_product:
            torch.mm(_outputs(gradient), _patches(image, kernel, geometry).t(), out=own.flatten(1))
        else:
            own.copy_(_backward(gradient, image, filters, geometry, 1))
    return dw


def _backward(dy: Tensor, x: Tensor, w: Tensor, geometry: Geometry, which: int) -> Tensor:
    """The gradient of one lane in its images (0) or its filters (1)."""
    mask = [which == 0, which == 1, False]
    none = [0, 0]
    return cast(Tensor, _aten.convolution_backward.default(dy, x, w, None, *geometry, False, none, 1, mask)[which])


def like_output(x: Tensor, w: Tensor, stride: list[int], padding: list[int], dilation: list[int]) -> Tensor:
    """A tensor of the outputs' shape."""
    size = Geometry.of(stride, padding, dilation).size((x.shape[3], x.shape[4]), _kernel(w))
    return x.new_empty(*x.shape[:2], w.shape[1], *size)


_define("convolve", "Tensor x, Tensor w")
_define("convolve_input", "Tensor dy, Tensor x, Tensor w")
_define("convolve_weight", "Tensor dy, Tensor x, Tensor w")
for _name, _function in {
    "convolve": convolve, "convolve_input": convolve_input, "convolve_weight": convolve_weight
}.items():  # fmt: skip
    _library.impl(_name, _function, "CPU")  # type: ignore[no-untyped-call]
_library._register_fake("convolve", like_output)  # type: ignore[no-untyped-call]
_library._register_fake("convolve_input", lambda dy, x, w, *geometry: torch.empty_like(x))  # type: ignore[no-untyped-call]
_library._register_fake("convolve_weight", lambda dy, x, w, *geometry: torch.empty_like(w))  # type: ignore[no-untyped-call]
