"""The kernels of large dense layers in Triton's interpreter, beside a CPU's products in float64; one JSON line.

`TRITON_INTERPRET=1 python tests/support/interpreted/interpreted_dense.py`; Triton reads the variable when imported.
"""

from __future__ import annotations

import json
from typing import NamedTuple
from unittest import mock

import torch
from interpreter import interpreter
from torch import Tensor

from fl_ddp.compiler import dense_kernel
from fl_ddp.compiler.dense_layers import MOST

SIDE, PIECE = 16, 40
"""Blocks that small layers fill more than one of, and pieces that end within a block."""
SIZES = {
    "as in a network": (3, 10, 33, 117),
    "whole blocks": (2, 16, 32, 80),
    "one piece": (2, 5, 7, 40),
    "one sample": (1, 1, 20, 41),
}
"""Lanes, samples, outputs and inputs."""


class Layer(NamedTuple):
    """What a layer is given: weights [G, O, I], inputs [G, B, I], gradients in outputs and their steps [G, B, O]."""

    theta: Tensor
    x: Tensor
    d: Tensor
    scaled: Tensor


class Made(NamedTuple):
    """What is made of it: outputs [G, B, O], gradients in inputs [G, B, I], weights after the step."""

    outputs: Tensor
    dx: Tensor
    theta: Tensor


def layer(name: str) -> Layer:
    """A random layer."""
    lanes, batch, outs, ins = SIZES[name]
    made = torch.Generator().manual_seed(0)
    shapes = (lanes, outs, ins), (lanes, batch, ins), (lanes, batch, outs), (lanes, outs, batch)
    theta, x, d, turned = (torch.randn(shape, generator=made) for shape in shapes)
    return Layer(theta, x, d, turned.mT)


def in_float64(given: Layer) -> Made:
    """By a CPU."""
    theta, x, d, scaled = (each.double() for each in given)
    return Made(x @ theta.mT, d @ theta, theta + scaled.mT @ x)


def interpreted(given: Layer, *, tf32: bool = False) -> Made:
    """By the kernels."""
    blocks = {"block_o": SIDE, "block_i": SIDE}
    theta = given.theta.clone()
    with (
        mock.patch.object(dense_kernel, "OUTPUTS", blocks),
        mock.patch.object(dense_kernel, "STEP", blocks),
        mock.patch.object(dense_kernel, "PIECE", PIECE),
        mock.patch.object(dense_kernel, "_AT_ONCE", 64),
        interpreter(),
    ):
        outputs = dense_kernel.launch_outputs(given.x, theta, MOST, tf32=tf32)
        return Made(outputs, dense_kernel.launch_step(theta, given.scaled, given.x, given.d, MOST, tf32=tf32), theta)


def errors() -> dict[str, float]:
    """The largest error of each case, as a part of the largest number."""
    found = {}
    for name in SIZES:
        given = layer(name)
        both = zip(interpreted(given), in_float64(given), strict=True)
        found[name] = max(float((ours - right).abs().max() / right.abs().max()) for ours, right in both)
    return found


def in_company() -> dict[str, float]:
    """How far what is made of a lane is from what is made of it alone, in TF32, which is not rounded here."""
    given = layer("as in a network")
    together = interpreted(given, tf32=True)
    alone = [interpreted(Layer(*(each[lane : lane + 1] for each in given))) for lane in range(len(given.theta))]
    parts = (torch.cat(each) for each in zip(*alone, strict=True))
    return {"company": sum(float((a - b).abs().max()) for a, b in zip(parts, together, strict=True))}


def in_order() -> dict[str, float]:
    """What is left of pieces 1, 1e8 and -1e8, of which the first one is lost in the second one."""
    weights = torch.zeros(1, 3, 3 * PIECE)
    weights[..., ::PIECE] = torch.tensor([1.0, 1e8, -1e8])
    given = Layer(weights, torch.ones(1, 2, 3 * PIECE), torch.zeros(1, 2, 3), torch.zeros(1, 2, 3))
    return {"order": float(interpreted(given).outputs.abs().max())}


if __name__ == "__main__":
    print(json.dumps(errors() | in_company() | in_order()))
