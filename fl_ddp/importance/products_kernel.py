"""The Triton kernel behind products.py; it is imported where there is a GPU, and in Triton's interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCKS = {"block_o": 64, "block_n": 64, "block_p": 16}
"""Sides of a block: outputs, places of the window, positions; part of the results' bits."""
WARPS, STAGES = 8, 3
_AT_ONCE = 1024
"""Numbers that one program of added() adds up."""


@triton.jit  # type: ignore[untyped-decorator]
def powers(  # type: ignore[no-untyped-def]
    x, d, out, batch, channels, height, width, outputs, rows, columns, stride_h, stride_w, dilation_h, dilation_w, top,
    left, s_lane, s_sample, s_channel, s_row, s_column, losses, lanes, length,
    kernel_h: tl.constexpr, kernel_w: tl.constexpr, square: tl.constexpr, precision: tl.constexpr,
    block_o: tl.constexpr, block_n: tl.constexpr, block_p: tl.constexpr,
):  # fmt: skip
    """out[s, g, o, n] = sum over a piece's b, k of |sum over p of d[g, k, b, o, p] patches[g, b, p, n]| ^ 2 or 1."""
    lane, blocks = tl.program_id(2).to(tl.int64), tl.cdiv(outputs, block_o)
    piece = tl.program_id(0) // blocks
    o = tl.program_id(0) % blocks * block_o + tl.arange(0, block_o)
    n = tl.program_id(1) * block_n + tl.arange(0, block_n)
    positions, places = rows * columns, channels * kernel_h * kernel_w
    c, i, j = n // (kernel_h * kernel_w), n // kernel_w % kernel_h, n % kernel_w
    x += lane * s_lane
    d += lane * losses * batch * outputs * positions
    total = tl.zeros((block_o, block_n), tl.float32)
    for each in range(piece * length, tl.minimum((piece + 1) * length, losses * batch)):
        of_x = x + each // losses * s_sample
        of_d = d + (each % losses * batch + each // losses) * outputs * positions
        product = tl.zeros((block_o, block_n), tl.float32)
        for first in range(0, positions, block_p):
            p = first + tl.arange(0, block_p)
            row = (p // columns * stride_h - top)[:, None] + (i * dilation_h)[None, :]
            column = (p % columns * stride_w - left)[:, None] + (j * dilation_w)[None, :]
            inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
            inside &= (p[:, None] < positions) & (n[None, :] < places)
            seen = tl.load(of_x + c[None, :] * s_channel + row * s_row + column * s_column, inside, other=0.0)
            known = (o[:, None] < outputs) & (p[None, :] < positions)
            given = tl.load(of_d + o[:, None] * positions + p[None, :], known, other=0.0)
            product = tl.dot(given, seen, product, input_precision=precision)
        total += product * product if square else tl.abs(product)
    wanted = (o[:, None] < outputs) & (n[None, :] < places)
    tl.store(out + ((piece * lanes + lane) * outputs + o[:, None]) * places + n[None, :], total, wanted)


@triton.jit  # type: ignore[untyped-decorator]
def added(pieces, out, number, size, at_once: tl.constexpr):  # type: ignore[no-untyped-def]
    """out[i] = sum of pieces[s, i] in their order."""
    i = tl.program_id(0).to(tl.int64) * at_once + tl.arange(0, at_once)
    total = tl.zeros((at_once,), tl.float32)
    pieces += i
    for _ in range(0, number):
        total += tl.load(pieces, i < size, other=0.0)
        pieces += size
    tl.store(out + i, total, i < size)


def launch(
    d: Tensor, x: Tensor, kernel: Sequence[int], geometry: Sequence[int], power: str, *, tf32: bool = False
) -> Tensor:
    """Sums of powers of products of all lanes.

    Samples are summed in pieces side by side, as many samples a piece as a layer's weight has blocks: where these are
    few, a few programs would have all the work, on a multiprocessor each. Pieces depend on the layer alone.

    Args:
        d: [G, K, B, O, H', W'].
        x: [G, B, C, H, W], of any strides.
        kernel: height and width of the window.
        geometry: stride, dilation, and padding above and left, each by (height, width).
        power: square or absolute.
        tf32: round factors to TF32, else IEEE.

    Returns:
        [G, O, C * height * width] float32.
    """
    lanes, losses, batch, outputs, height, width = d.shape
    channels = x.shape[2]
    n = channels * kernel[0] * kernel[1]
    wide, high = triton.cdiv(outputs, BLOCKS["block_o"]), triton.cdiv(n, BLOCKS["block_n"])
    length = wide * high
    number = triton.cdiv(losses * batch, length)
    pieces = torch.empty(number, lanes, outputs, n, dtype=d.dtype, device=d.device)
    powers[(wide * number, high, lanes)](
        x, d.contiguous(), pieces, batch, channels, *x.shape[3:], outputs, height, width, *geometry, *x.stride(),
        losses, lanes, length,
        kernel_h=kernel[0], kernel_w=kernel[1], square=power == "square", precision="tf32" if tf32 else "ieee",
        **BLOCKS, num_warps=WARPS, num_stages=STAGES,
    )  # fmt: skip
    if number == 1:
        return pieces[0]
    out = torch.empty_like(pieces[0])
    added[(triton.cdiv(out.numel(), _AT_ONCE),)](pieces, out, number, out.numel(), at_once=_AT_ONCE)
    return out
