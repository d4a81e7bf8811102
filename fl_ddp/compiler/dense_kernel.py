"""The Triton kernels behind dense_layers.py; they are imported where there is a GPU, and in Triton's interpreter."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

OUTPUTS = {"block_o": 128, "block_i": 32}
"""Sides of a block of outputs() in weights: outputs and inputs; part of the results' bits, as all that follows."""
PIECE = 896
"""Inputs that one program of outputs() sums over."""
STEP = {"block_o": 16, "block_i": 64}
"""Sides of a block of step(); in larger ones its threads' registers do not do for products in IEEE."""
WARPS, STAGES = 4, 3
_AT_ONCE = 256
"""Numbers that one program of added() adds up."""


@triton.jit  # type: ignore[untyped-decorator]
def outputs(  # type: ignore[no-untyped-def]
    x, theta, out, batch, outs, ins, length,
    rows: tl.constexpr, precision: tl.constexpr, block_o: tl.constexpr, block_i: tl.constexpr,
):  # fmt: skip
    """out[g, s, b, o] = sum over a piece's i of x[g, b, i] theta[g, o, i]."""
    piece, lane = tl.program_id(0), tl.program_id(1).to(tl.int64)
    o, b = tl.program_id(2) * block_o + tl.arange(0, block_o), tl.arange(0, rows)
    x += lane * batch * ins
    theta += lane * outs * ins
    out += (lane * tl.num_programs(0) + piece) * batch * outs
    end = tl.minimum((piece + 1) * length, ins)
    total = tl.zeros((block_o, rows), tl.float32)
    for first in range(piece * length, end, block_i):
        i = first + tl.arange(0, block_i)
        known = (o[:, None] < outs) & (i[None, :] < end)
        weights = tl.load(theta + o[:, None] * ins + i[None, :], known, other=0.0)
        seen = tl.load(x + b[:, None] * ins + i[None, :], (b[:, None] < batch) & (i[None, :] < end), other=0.0)
        total = tl.dot(weights, tl.trans(seen), total, input_precision=precision)
    tl.store(out + b[None, :] * outs + o[:, None], total, (o[:, None] < outs) & (b[None, :] < batch))


@triton.jit  # type: ignore[untyped-decorator]
def added(pieces, out, number, size, at_once: tl.constexpr):  # type: ignore[no-untyped-def]
    """out[g, n] = sum of pieces[g, s, n] in their order."""
    n, lane = tl.program_id(0) * at_once + tl.arange(0, at_once), tl.program_id(1).to(tl.int64)
    total = tl.zeros((at_once,), tl.float32)
    pieces += lane * number * size + n
    for _ in range(0, number):
        total += tl.load(pieces, n < size, other=0.0)
        pieces += size
    tl.store(out + lane * size + n, total, n < size)


@triton.jit  # type: ignore[untyped-decorator]
def step(  # type: ignore[no-untyped-def]
    theta, scaled, x, d, dx, batch, outs, ins, s_lane, s_sample, s_out,
    rows: tl.constexpr, precision: tl.constexpr, block_o: tl.constexpr, block_i: tl.constexpr,
):  # fmt: skip
    """dx[g, b, i] = sum over o of d[g, b, o] theta[g, o, i], and theta[g, o, i] += sum of scaled[g, b, o] x[g, b, i].

    Each weight is read once, and written by the program that has read it.
    """
    lane = tl.program_id(1).to(tl.int64)
    i, b = tl.program_id(0) * block_i + tl.arange(0, block_i), tl.arange(0, rows)
    theta += lane * outs * ins
    x += lane * batch * ins
    dx += lane * batch * ins
    d += lane * batch * outs
    scaled += lane * s_lane
    inside = (b[:, None] < batch) & (i[None, :] < ins)
    seen = tl.load(x + b[:, None] * ins + i[None, :], inside, other=0.0)
    total = tl.zeros((rows, block_i), tl.float32)
    for first in range(0, outs, block_o):
        o = first + tl.arange(0, block_o)
        place = theta + o[:, None] * ins + i[None, :]
        known = (o[:, None] < outs) & (i[None, :] < ins)
        old = tl.load(place, known, other=0.0)
        given = tl.load(d + b[:, None] * outs + o[None, :], (b[:, None] < batch) & (o[None, :] < outs), other=0.0)
        total = tl.dot(given, old, total, input_precision=precision)
        of_scaled = scaled + b[None, :] * s_sample + o[:, None] * s_out
        change = tl.load(of_scaled, (b[None, :] < batch) & (o[:, None] < outs), other=0.0)
        # of old + dot() Triton would make a dot that begins with old, and rounds to its digits with each sample
        tl.store(place, old - tl.dot(-change, seen, input_precision=precision), known)
    tl.store(dx + b[:, None] * ins + i[None, :], total, inside)


def launch_outputs(x: Tensor, theta: Tensor, rows: int, *, tf32: bool = False) -> Tensor:
    """Outputs of a dense layer of all lanes.

    Inputs are summed in pieces side by side, for want of programs where outputs are few; pieces depend on the layer
    alone.

    Args:
        x: [G, B, I], at most rows samples.
        theta: [G, O, I], contiguous.
        rows: of a block, a power of two from 16 on; what is no sample counts as zeros.
        tf32: round factors to TF32, else IEEE.

    Returns:
        [G, B, O] float32.
    """
    lanes, batch, ins = x.shape
    outs = theta.shape[1]
    number = triton.cdiv(ins, PIECE)
    pieces = x.new_empty(lanes, number, batch, outs)
    outputs[(number, lanes, triton.cdiv(outs, OUTPUTS["block_o"]))](
        x.contiguous(), theta, pieces, batch, outs, ins, PIECE,
        rows=rows, precision="tf32" if tf32 else "ieee", **OUTPUTS,
        num_warps=WARPS, num_stages=STAGES, enable_fp_fusion=True,
    )  # fmt: skip
    if number == 1:
        return pieces[:, 0]
    out, size = x.new_empty(lanes, batch, outs), batch * outs
    added[(triton.cdiv(size, _AT_ONCE), lanes)](pieces, out, number, size, at_once=_AT_ONCE)
    return out


def launch_step(theta: Tensor, scaled: Tensor, x: Tensor, d: Tensor, rows: int, *, tf32: bool = False) -> Tensor:
    """Gradient in the inputs of a dense layer of all lanes, and a step of its weights, in place.

    Args:
        theta: [G, O, I], contiguous; += scaled^T x.
        scaled: [G, B, O] gradient in outputs, times what a step is of it; of any strides.
        x: [G, B, I], at most rows samples.
        d: [G, B, O] gradient in outputs.
        rows: of a block, a power of two from 16 on; what is no sample counts as zeros.
        tf32: round factors to TF32, else IEEE.

    Returns:
        [G, B, I] float32, d times theta as it was.
    """
    lanes, batch, ins = x.shape
    dx = torch.empty_like(x, memory_format=torch.contiguous_format)
    step[(triton.cdiv(ins, STEP["block_i"]), lanes)](
        theta, scaled, x.contiguous(), d.contiguous(), dx, batch, theta.shape[1], ins, *scaled.stride(),
        rows=rows, precision="tf32" if tf32 else "ieee", **STEP,
        num_warps=WARPS, num_stages=STAGES, enable_fp_fusion=True,
    )  # fmt: skip
    return dx
