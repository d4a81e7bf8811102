"""The kernels of large dense layers: right in Triton's interpreter, what is compiled of them, and who calls them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from cubin import cubin
from emitted import Emitted, emitted
from emitted_models import apart, of_step
from interpreted_scripts import interpreted
from torch import Tensor

from fl_ddp.compiler.compilation import compiled
from fl_ddp.compiler.dense_layers import LARGE, MOST, NARROW

CASES = ("as in a network", "whole blocks", "one piece", "one sample")
pytestmark = [
    pytest.mark.cuda_code,
    pytest.mark.skipif(find_spec("triton") is None, reason="this build of torch has no Triton"),
]
BOTH = pytest.mark.parametrize("precision", ["ieee", "tf32"])


@cache
def errors() -> dict[str, float]:
    """Of the kernels in Triton's interpreter beside a CPU in float64, by case, and beside themselves."""
    return interpreted()


@pytest.mark.parametrize("case", CASES)
def test_kernels_make_what_a_cpu_does(case: str) -> None:
    assert set(errors()) == {*CASES, "company", "order"}
    assert errors()[case] < 1e-6


def test_a_lane_s_bits_depend_on_nothing_else_and_pieces_are_added_in_order() -> None:
    assert errors()["company"] == 0
    assert errors()["order"] == 0


def kernel(name: str, precision: str) -> tuple[Any, set[str], dict[str, object]]:
    """A kernel, its pointers and its constants."""
    from fl_ddp.compiler.dense_kernel import OUTPUTS, STEP, outputs, step

    fixed: dict[str, object] = {"rows": MOST, "precision": precision}
    if name == "step":
        return step, {"theta", "scaled", "x", "d", "dx"}, {**fixed, **STEP}
    return outputs, {"x", "theta", "out"}, {**fixed, **OUTPUTS}


@BOTH
@pytest.mark.parametrize("name", ["outputs", "step"])
def test_kernels_keep_to_their_registers_and_add_nothing_by_atomics(name: str, precision: str) -> None:
    """With PflCNN's sizes; of those that are no multiples of 16, Triton knows less."""
    from fl_ddp.compiler.dense_kernel import STAGES, WARPS

    made, pointers, constants = kernel(name, precision)
    sizes = {"batch": 10, "outs": 128, "ins": 12544}
    found = cubin(made, pointers, constants | sizes, WARPS, STAGES)
    assert found.stack == 0 and found.shared <= 232448
    none = ("LDL", "STL", "RED", "ATOM")
    assert {each: found.instructions[each] for each in none} == dict.fromkeys(none, 0)
    assert (found.instructions["HMMA"] + found.instructions["HGMMA"] > 0) is (precision == "tf32")


def test_pieces_are_added_by_one_thread_each() -> None:
    from fl_ddp.compiler.dense_kernel import added

    found = cubin(added, {"pieces", "out"}, {"at_once": 256}, 4, 1)
    assert found.stack == 0
    assert {name: found.instructions[name] for name in ("RED", "ATOM")} == {"RED": 0, "ATOM": 0}


@BOTH
def test_a_step_is_summed_before_it_is_added(precision: str) -> None:
    """Triton would begin a sum with what it is added to, and round each of its terms to the digits of that."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    made, pointers, constants = kernel("step", precision)
    names = made.arg_names
    signature = {a: "constexpr" if a in constants else "*fp32" if a in pointers else "i32" for a in names}
    source = ASTSource(made, signature, {(names.index(name),): value for name, value in constants.items()})
    code = triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["ttir"]
    dots = re.findall(r"(%\S+) = tt\.dot %\S+, %\S+, (%[A-Za-z]+)", code)
    assert [begin for _, begin in dots] == ["%total", "%cst"]
    assert re.search(rf"arith\.subf %old\S*, {dots[1][0]} ", code)


@cache
def of_model(name: str, recorded: bool = False, head_alone: bool = False) -> Emitted:
    """The local step of a model."""
    return apart(of_step, name, recorded=recorded, head_alone=head_alone)


def calls(code: Emitted) -> Counter[str]:
    """How often the kernels are called, and what they stand for."""
    named = ("dense_outputs", "dense_step_", "baddbmm_")
    return Counter({name: code.launches[name] for name in named if code.launches[name]})


@pytest.mark.parametrize("recorded", [False, True])
def test_the_large_layer_of_pflcnn_is_made_by_the_kernels(recorded: bool) -> None:
    code = of_model("PflCNN", recorded)
    assert calls(code) == {"dense_outputs": 1, "dense_step_": 1, "baddbmm_": 1}, "the last layer's"
    ((theta, x),) = re.findall(r"dense_step_\.default\((\w+), .*, (\w+), \w+\)", code.text)
    assert f"dense_outputs.default({x}, {theta})" in code.text, "inputs are stored once"
    assert re.search(rf"assert_size_stride\({theta}, \(5, 128, 12544\)", code.text), "it is the parameter itself"
    assert 5 * 128 * 12544 not in code.temporaries
    assert code.late_reads == set()


def test_a_large_layer_that_is_fixed_has_outputs_alone() -> None:
    assert calls(of_model("PflCNN", head_alone=True)) == {"dense_outputs": 1, "baddbmm_": 1}


def test_layers_of_an_mlp_are_left_as_they_are() -> None:
    assert calls(of_model("MLP")) == {"baddbmm_": 2}


def two_layers(theta: Tensor, memory: Tensor, b: Tensor, x: Tensor, active: Tensor, lr: Tensor, factor: float) -> None:
    seen = (x + b[:, None]).relu()
    d = 2 * (seen @ theta.mT)
    of_theta, of_b = d.mT @ seen, ((d @ theta) * (seen > 0)).sum(1)
    if factor:
        of_theta = factor * memory + of_theta
        memory.copy_(of_theta)
    theta.copy_(torch.where(active[:, None, None], theta - lr * of_theta, theta))
    b.copy_(torch.where(active[:, None], b - lr * of_b, b))


def plain(theta: Tensor, memory: Tensor, b: Tensor, x: Tensor, active: Tensor, lr: Tensor) -> None:
    two_layers(theta, memory, b, x, active, lr, 0.0)


def with_momentum(theta: Tensor, memory: Tensor, b: Tensor, x: Tensor, active: Tensor, lr: Tensor) -> None:
    two_layers(theta, memory, b, x, active, lr, 0.9)


BY_KERNELS = {"dense_outputs": 1, "dense_step_": 1}


@pytest.mark.parametrize(
    ("step", "batch", "outs", "ins", "expected"),
    [
        (plain, MOST, NARROW, LARGE // NARROW, BY_KERNELS),
        (plain, MOST, LARGE // NARROW, NARROW, BY_KERNELS),
        (plain, MOST + 1, NARROW, LARGE // NARROW, {"baddbmm_": 1}),
        (plain, MOST, NARROW // 2, 2 * LARGE // NARROW, {"baddbmm_": 1}),
        (plain, MOST, NARROW, LARGE // NARROW - 1, {"baddbmm_": 1}),
        (with_momentum, MOST, NARROW, LARGE // NARROW, {"dense_outputs": 1}),
    ],
)
def test_layers_are_made_by_the_kernels_where_they_fit(
    step: Callable[..., None], batch: int, outs: int, ins: int, expected: dict[str, int]
) -> None:
    lanes = 2
    shapes = (lanes, outs, ins), (lanes, outs, ins), (lanes, ins), (lanes, batch, ins)
    given = *map(torch.zeros, shapes), torch.ones(lanes) > 0, torch.tensor(0.1)
    code = emitted(lambda: compiled(step, "it")(*given))
    assert calls(code) == expected
    assert code.late_reads == set()
