"""The tool that shows emitted code sees what it should; and what the pass of fused_update.py makes of a GPU's code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from unittest import mock

import pytest
import torch
from emitted import Emitted, emitted
from torch import Tensor
from torch.func import grad
from torch.nn import functional as F

from fl_ddp.compiler.compilation import compiled
from fl_ddp.ranks import exact_sum

pytestmark = [
    pytest.mark.cuda_code,
    pytest.mark.skipif(find_spec("triton") is None, reason="this build of torch has no Triton"),
]
LANES, ROWS, COLUMNS, BATCH = 3, 64, 32, 10


def code_of(function: Callable[..., None], *given: Tensor, deterministic: bool = True) -> Emitted:
    return emitted(lambda: compiled(function, "it")(*given), deterministic=deterministic)


def doubled(out: Tensor, x: Tensor) -> None:
    out.copy_(2 * x)


def test_bytes_are_those_of_what_is_read_and_written() -> None:
    code = code_of(doubled, torch.zeros(1000), torch.zeros(1000))
    assert code.bytes == 12000  # what is written in place counts as read, too
    assert code.launches == {"triton": 1} and code.temporaries == ()


def multiplied_twice(out: Tensor, x: Tensor, w: Tensor) -> None:
    out.copy_(((x @ w).relu() @ w).relu())


def test_launches_are_kernels_and_library_calls() -> None:
    code = code_of(multiplied_twice, torch.zeros(32, 32), torch.zeros(32, 32), torch.zeros(32, 32))
    assert code.launches == {"triton": 2, "mm": 2}
    assert max(code.temporaries) == 32 * 32


def picked(out: Tensor, x: Tensor, at: Tensor) -> None:
    out.copy_(torch.zeros_like(out).index_put((at,), x, accumulate=True))


@pytest.mark.parametrize("deterministic", [False, True])
def test_sums_at_indices_are_atomic_unless_torch_is_told_to_be_deterministic(deterministic: bool) -> None:
    given = torch.zeros(5), torch.zeros(20), torch.zeros(20, dtype=torch.int64)
    assert bool(code_of(picked, *given, deterministic=deterministic).atomics) is not deterministic


def pooled(out: Tensor, x: Tensor) -> None:
    out.copy_(grad(lambda x: F.max_pool2d(x, 3, 2, 1).square().sum())(x))


def test_overlapping_pools_are_not_atomic_where_torch_is_told_to_be_deterministic() -> None:
    assert code_of(pooled, torch.zeros(2, 3, 16, 16), torch.zeros(2, 3, 16, 16)).atomics == []


def summed(out: Tensor, x: Tensor) -> None:
    out.copy_(x.exp().sum(0))


@pytest.mark.parametrize("deterministic", [False, True])
def test_reductions_are_chosen_by_timing_unless_torch_is_told_to_be_deterministic(deterministic: bool) -> None:
    code = code_of(summed, torch.zeros(200), torch.zeros(10, 200), deterministic=deterministic)
    (configurations,) = code.configurations().values()
    assert (configurations > 1) is not deterministic


def step(theta: Tensor, d: Tensor, x: Tensor, active: Tensor, lr: Tensor) -> None:
    theta.copy_(torch.where(active[:, None, None], theta - lr * (d.mT @ x), theta))


def with_momentum(theta: Tensor, d: Tensor, x: Tensor, active: Tensor, lr: Tensor) -> None:
    theta.copy_(torch.where(active[:, None, None], theta - lr * (d.mT @ x + 0.9 * theta), theta))


def total(out: Tensor, d: Tensor, x: Tensor, active: Tensor, lr: Tensor) -> None:
    out.add_(d.square().mT @ x.square())


@pytest.mark.parametrize(("function", "in_place"), [(step, True), (total, True), (with_momentum, False)])
def test_products_are_added_in_place_and_stored_nowhere(function: Callable[..., None], in_place: bool) -> None:
    given = torch.zeros(LANES, BATCH, ROWS), torch.zeros(LANES, BATCH, COLUMNS), torch.ones(LANES) > 0
    code = code_of(function, torch.zeros(LANES, ROWS, COLUMNS), *given, torch.tensor(0.1))
    assert (code.launches["baddbmm_"] == 1) is in_place
    assert (LANES * ROWS * COLUMNS in code.temporaries) is not in_place


def two_layers(w: Tensor, b: Tensor, v: Tensor, x: Tensor, y: Tensor, active: Tensor, lr: Tensor) -> None:
    def loss(w: Tensor, b: Tensor, v: Tensor) -> Tensor:
        return (v @ (w @ x.mT + b[:, :, None]).relu() - y).square().sum()

    for leaf, change in zip((w, b, v), grad(loss, (0, 1, 2))(w, b, v), strict=True):
        leaf.copy_(torch.where(active.view(-1, *[1] * (leaf.ndim - 1)), leaf - lr * change, leaf))


@pytest.mark.parametrize("written", ["= torch.ops.aten.baddbmm_", "triton_"])
def test_a_parameter_that_is_read_behind_its_writing_is_seen(written: str) -> None:
    shapes = (LANES, ROWS, COLUMNS), (LANES, ROWS), (LANES, 5, ROWS), (LANES, BATCH, COLUMNS), (LANES, 5, BATCH)
    code = code_of(two_layers, *map(torch.zeros, shapes), torch.ones(LANES) > 0, torch.tensor(0.1))
    assert code.late_reads == set()
    body = code.text.index("def call(")
    head, lines = code.text[:body], code.text[body:].splitlines()
    at = max(i for i, line in enumerate(lines) if written in line)
    begin = next(i for i, line in enumerate(lines) if ".run(" in line or "extern_kernels" in line)
    lines.insert(begin, lines.pop(at))
    assert replace(code, text=head + "\n".join(lines)).late_reads


@pytest.mark.parametrize("lanes", [10, 25, 50])
def test_a_cohorts_sums_are_made_side_by_side(lanes: int) -> None:
    """By blocks of numbers: with few summands each, one of its own would leave most of its threads idle."""
    with mock.patch.object(exact_sum, "compiled") as compiles:
        exact_sum._compiled(("of this test", lanes))
    (function, what), options = compiles.call_args

    def sums(high: Tensor, low: Tensor, *given: Tensor) -> None:
        for out, found in zip((high, low), function(*given), strict=False):
            out.copy_(found)

    out, numbers = torch.zeros(10**6, dtype=torch.float64), torch.zeros(lanes, 10**6)
    given = out, out.clone(), torch.ones(lanes), numbers, numbers[0].clone(), torch.ones(lanes, 1)
    blocks = emitted(lambda: compiled(sums, what, **options)(*given)).blocks()
    (of_lanes,) = (block for name, block in blocks.items() if "amax" not in name)
    assert of_lanes >= 8
