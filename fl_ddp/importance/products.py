"""Sums over samples of powers of every sample's matrix product, on a GPU without any product or patch in memory.

A convolution's gradient of one sample is d @ patches; written so, patches are a kernel's size of images, and the
products a weight for every sample. On a CPU that is what is done. On a GPU a Triton kernel reads the images in place,
makes a sample's product block by block in registers, and adds its powers up: nothing is atomic, blocks are fixed, and
where sums are split is a matter of the layer, so that a lane's bits depend on nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def on_gpu(x: Tensor) -> bool:
    """Whether the kernel is made for a tensor: float32 on a GPU."""
    return x.device.type == "cuda" and x.dtype == torch.float32


def products(d: Tensor, x: Tensor, kernel: Sequence[int], geometry: Sequence[int], power: str) -> Tensor:
    """Sums over samples and losses of powers of d @ patches of x, for one lane.

    Args:
        d: [K, B, O, H', W'] gradients of K losses in a layer's output.
        x: [B, C, H, W] the layer's input; a linear layer's has its positions in W.
        kernel: height and width of the window.
        geometry: stride, dilation, and padding above and left, each by (height, width).
        power: square or absolute.

    Returns:
        [O, C * height * width].
    """
    of_lanes: Tensor = _products(d[None], x[None], list(kernel), list(geometry), power)
    return of_lanes[0]


@torch.library.custom_op("fl_ddp::products", mutates_args=(), device_types="cuda")
def _products(d: Tensor, x: Tensor, kernel: Sequence[int], geometry: Sequence[int], power: str) -> Tensor:
    """As products(), d and x with an axis of lanes before all others."""
    from fl_ddp.importance.products_kernel import launch  # imports Triton, which nothing else here needs

    found: Tensor = launch(d, x, kernel, geometry, power, tf32=torch.backends.cuda.matmul.fp32_precision == "tf32")
    return found


@_products.register_fake
def _(d: Tensor, x: Tensor, kernel: Sequence[int], geometry: Sequence[int], power: str) -> Tensor:
    return d.new_empty(d.shape[0], d.shape[3], x.shape[2] * kernel[0] * kernel[1])


@_products.register_vmap
def _(
    info: object,
    in_dims: tuple[int | None, ...],
    d: Tensor,
    x: Tensor,
    kernel: Sequence[int],
    geometry: Sequence[int],
    power: str,
) -> tuple[Tensor, int]:
    size = next(t.shape[dim] for t, dim in zip((d, x), in_dims, strict=False) if dim is not None)
    d, x = (
        t.expand(size, *t.shape) if dim is None else t.movedim(dim, 0) for t, dim in zip((d, x), in_dims, strict=False)
    )
    found = _products(d.flatten(0, 1), x.flatten(0, 1), kernel, geometry, power)
    return found.unflatten(0, (size, -1)), 0
