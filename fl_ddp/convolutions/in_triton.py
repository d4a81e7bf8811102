"""Convolutions of lanes on CUDA as matrix products of patches that are never stored, in Triton.

Images are x [G, B, C, H, W], filters w [G, O, C, kh, kw], outputs y [G, B, O, H', W'], all contiguous. No sum is split
over programs, nothing is atomic and the blocks are fixed, not tuned: a lane's bits depend on nothing but the lane.
"""

# Triton's kernels are typed by their launch
# mypy: disable-error-code="no-untyped-def,untyped-decorator"

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from fl_ddp.convolutions.forms import Geometry


class Blocks(NamedTuple):
    """Sides of the tiles of a product [rows, inner] @ [inner, columns], and warps of a program."""

    rows: int
    columns: int
    inner: int
    warps: int


OUTPUT = Blocks(128, 64, 32, 8)
INPUT = Blocks(128, 32, 32, 8)
WEIGHT = Blocks(64, 64, 32, 4)
STAGES = 3


@triton.jit
def output_kernel(
    x,
    w,
    y,
    channels,
    height,
    width,
    outs,
    out_h,
    out_w,
    m_end,
    k_end,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    step_h,
    step_w,
    kernel_h: tl.constexpr,
    kernel_w: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    precision: tl.constexpr,
):
    """y[g, b, o, p, q] = sum over c, i, j of x[g, b, c, p * s + i * d - pad, ...] * w[g, o, c, i, j]."""
    g = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * block_m + tl.arange(0, block_m)
    o = tl.program_id(1) * block_n + tl.arange(0, block_n)
    pixels = out_h * out_w
    b, p = m // pixels, m % pixels
    top, left = p // out_w * stride_h - pad_h, p % out_w * stride_w - pad_w
    x += g * (m_end // pixels) * channels * height * width
    w += g * outs * k_end
    acc = tl.full((block_m, block_n), 0.0, tl.float32)
    for k0 in range(0, k_end, block_k):
        k = k0 + tl.arange(0, block_k)
        c, tap = k // (kernel_h * kernel_w), k % (kernel_h * kernel_w)
        row, column = (
            top[:, None] + (tap // kernel_w * step_h)[None, :],
            left[:, None] + (tap % kernel_w * step_w)[None, :],
        )
        inside = (
            (m < m_end)[:, None] & (k < k_end)[None, :] & (row >= 0) & (row < height) & (column >= 0) & (column < width)
        )
        patch = tl.load(x + ((b[:, None] * channels + c[None, :]) * height + row) * width + column, inside, other=0.0)
        filters = tl.load(w + o[None, :] * k_end + k[:, None], (o < outs)[None, :] & (k < k_end)[:, None], other=0.0)
        acc = tl.dot(patch, filters, acc, input_precision=precision)
    y += g * m_end * outs
    tl.store(
        y + (b[:, None] * outs + o[None, :]) * pixels + p[:, None], acc, (m < m_end)[:, None] & (o < outs)[None, :]
    )


@triton.jit
def input_kernel(
    dy,
    w,
    dx,
    channels,
    height,
    width,
    outs,
    out_h,
    out_w,
    m_end,
    k_end,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    step_h,
    step_w,
    kernel_h: tl.constexpr,
    kernel_w: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    precision: tl.constexpr,
):
    """dx[g, b, c, h, v] = sum over o, i, j of dy[g, b, o, (h + pad - i * d) / s, ...] * w[g, o, c, i, j]."""
    g = tl.program_id(2).to(tl.int64)
    m = tl.program_id(0) * block_m + tl.arange(0, block_m)
    c = tl.program_id(1) * block_n + tl.arange(0, block_n)
    pixels = height * width
    b, p = m // pixels, m % pixels
    bottom, right = p // width + pad_h, p % width + pad_w
    dy += g * (m_end // pixels) * outs * out_h * out_w
    w += g * k_end * channels
    acc = tl.full((block_m, block_n), 0.0, tl.float32)
    for k0 in range(0, k_end, block_k):
        k = k0 + tl.arange(0, block_k)
        o, tap = k // (kernel_h * kernel_w), k % (kernel_h * kernel_w)
        row, column = (
            bottom[:, None] - (tap // kernel_w * step_h)[None, :],
            right[:, None] - (tap % kernel_w * step_w)[None, :],
        )
        inside = (
            (m < m_end)[:, None]
            & (k < k_end)[None, :]
            & (row >= 0)
            & (row < out_h * stride_h)
            & (column >= 0)
            & (column < out_w * stride_w)
        )
        inside &= (row % stride_h == 0) & (column % stride_w == 0)
        near = dy + ((b[:, None] * outs + o[None, :]) * out_h + row // stride_h) * out_w + column // stride_w
        gradient = tl.load(near, inside, other=0.0)
        at = (o * channels * (kernel_h * kernel_w) + tap)[:, None] + c[None, :] * (kernel_h * kernel_w)
        filters = tl.load(w + at, (c < channels)[None, :] & (k < k_end)[:, None], other=0.0)
        acc = tl.dot(gradient, filters, acc, input_precision=precision)
    dx += g * m_end * channels
    tl.store(
        dx + (b[:, None] * channels + c[None, :]) * pixels + p[:, None],
        acc,
        (m < m_end)[:, None] & (c < channels)[None, :],
    )


@triton.jit
def weight_kernel(
    x,
    dy,
    dw,
    channels,
    height,
    width,
    outs,
    out_h,
    out_w,
    m_end,
    k_end,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    step_h,
    step_w,
    kernel_h: tl.constexpr,
    kernel_w: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    precision: tl.constexpr,
):
    """dw[g, o, c, i, j] = sum over b, p, q of dy[g, b, o, p, q] * x[g, b, c, p * s + i * d - pad, ...]."""
    g = tl.program_id(2).to(tl.int64)
    o = tl.program_id(0) * block_m + tl.arange(0, block_m)
    k = tl.program_id(1) * block_n + tl.arange(0, block_n)
    c, tap = k // (kernel_h * kernel_w), k % (kernel_h * kernel_w)
    up, across = tap // kernel_w * step_h - pad_h, tap % kernel_w * step_w - pad_w
    pixels = out_h * out_w
    x += g * (m_end // pixels) * channels * height * width
    dy += g * m_end * outs
    acc = tl.full((block_m, block_n), 0.0, tl.float32)
    for m0 in range(0, m_end, block_k):
        m = m0 + tl.arange(0, block_k)
        b, p = m // pixels, m % pixels
        row, column = (p // out_w * stride_h)[:, None] + up[None, :], (p % out_w * stride_w)[:, None] + across[None, :]
        inside = (
            (m < m_end)[:, None] & (k < k_end)[None, :] & (row >= 0) & (row < height) & (column >= 0) & (column < width)
        )
        patch = tl.load(x + ((b[:, None] * channels + c[None, :]) * height + row) * width + column, inside, other=0.0)
        near = dy + (b[None, :] * outs + o[:, None]) * pixels + p[None, :]
        gradient = tl.load(near, (o < outs)[:, None] & (m < m_end)[None, :], other=0.0)
        acc = tl.dot(gradient, patch, acc, input_precision=precision)
    tl.store(dw + g * outs * k_end + o[:, None] * k_end + k[None, :], acc, (o < outs)[:, None] & (k < k_end)[None, :])


def convolve(
    x: Tensor, w: Tensor, stride: list[int], padding: list[int], dilation: list[int], blocks: Blocks = OUTPUT
) -> Tensor:
    """Outputs of all lanes; float32."""
    (g, b, c, *image), (_, o, _, *kernel) = x.shape, w.shape
    height, width = Geometry.of(stride, padding, dilation).size((image[0], image[1]), (kernel[0], kernel[1]))
    y = x.new_empty(g, b, o, height, width)
    m, k = b * height * width, c * kernel[0] * kernel[1]
    sizes = (c, *image, o, height, width, m, k, *stride, *padding, *dilation)
    _launch(output_kernel, (m, o, g), blocks, (x.contiguous(), w.contiguous(), y), sizes, kernel)
    return y


def convolve_input(
    dy: Tensor, x: Tensor, w: Tensor, stride: list[int], padding: list[int], dilation: list[int], blocks: Blocks = INPUT
) -> Tensor:
    """Gradients in all lanes' images; float32."""
    (g, b, c, *image), (_, o, _, *kernel) = x.shape, w.shape
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    m, k = b * image[0] * image[1], o * kernel[0] * kernel[1]
    sizes = (c, *image, o, *dy.shape[3:], m, k, *stride, *padding, *dilation)
    _launch(input_kernel, (m, c, g), blocks, (dy.contiguous(), w.contiguous(), dx), sizes, kernel)
    return dx


def convolve_weight(
    dy: Tensor,
    x: Tensor,
    w: Tensor,
    stride: list[int],
    padding: list[int],
    dilation: list[int],
    blocks: Blocks = WEIGHT,
) -> Tensor:
    """Gradients in all lanes' filters; float32."""
    (g, b, c, *image), (_, o, _, *kernel) = x.shape, w.shape
    dw = torch.empty_like(w, memory_format=torch.contiguous_format)
    m, k = b * dy.shape[3] * dy.shape[4], c * kernel[0] * kernel[1]
    sizes = (c, *image, o, *dy.shape[3:], m, k, *stride, *padding, *dilation)
    _launch(weight_kernel, (o, k, g), blocks, (x.contiguous(), dy.contiguous(), dw), sizes, kernel)
    return dw


def _launch(
    kernel: triton.runtime.JITFunction[[]],
    extent: tuple[int, int, int],
    blocks: Blocks,
    tensors: tuple[Tensor, ...],
    sizes: tuple[int, ...],
    taps: list[int],
) -> None:
    """Run a kernel over rows and columns of the product of each lane; TF32 where matrix products may be."""
    rows, columns, lanes = extent
    grid = (-(-rows // blocks.rows), -(-columns // blocks.columns), lanes)
    precision = "tf32" if torch.backends.cuda.matmul.fp32_precision == "tf32" else "ieee"
    tiles = (blocks.rows, blocks.columns, blocks.inner, precision)
    kernel[grid](*tensors, *sizes, *taps, *tiles, num_warps=blocks.warps, num_stages=STAGES)


_library = torch.library.Library("fl_ddp", "FRAGMENT")  # type: ignore[no-untyped-call]


def register() -> None:
    """Let the operators of lane_by_lane run here where tensors are on CUDA."""
    for operator in (convolve, convolve_input, convolve_weight):
        name = operator.__name__
        if not torch._C._dispatch_has_kernel_for_dispatch_key(f"fl_ddp::{name}", "CUDA"):
            _library.impl(name, operator, "CUDA")  # type: ignore[no-untyped-call]
