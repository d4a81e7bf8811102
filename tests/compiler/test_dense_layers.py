"""The pass that calls kernels for large dense layers: what it changes, and that it changes no number."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from unittest import mock

import pytest
import torch
from torch import Tensor, fx
from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from fl_ddp.compiler import dense_layers
from fl_ddp.compiler.dense_layers import MOST, DenseLayers
from fl_ddp.compiler.fused_update import FuseUpdate

LANES, BATCH, OUTS, INS = 3, 5, 20, 24
Given = tuple[Tensor, ...]
BOTH, NEITHER = {"dense_outputs": 1, "dense_step_": 1}, {"baddbmm_": 1}
FORWARD = {"dense_outputs": 1, "baddbmm_": 1}


@dense_layers.dense_outputs.register_kernel("cpu")
def outputs(x: Tensor, theta: Tensor) -> Tensor:
    return torch.bmm(x, theta.mT)


@dense_layers.dense_step.register_kernel("cpu")
def joined(theta: Tensor, scaled: Tensor, x: Tensor, d: Tensor) -> Tensor:
    dx = torch.bmm(d, theta)
    theta.baddbmm_(scaled.mT, x)
    return dx


@pytest.fixture
def small_ones_too() -> Iterator[None]:
    """The pass takes these layers, on a CPU."""
    with (
        mock.patch.object(dense_layers, "LARGE", OUTS * INS),
        mock.patch.object(dense_layers, "NARROW", OUTS),
        mock.patch.object(dense_layers, "on_gpu", lambda x: x.dtype == torch.float32),
    ):
        yield


def given(batch: int = BATCH) -> Given:
    """Weights [G, O, I], inputs, targets, who is active, a learning rate, and where results go."""
    made = torch.Generator().manual_seed(0)
    shapes = (LANES, OUTS, INS), (LANES, batch, INS), (LANES, batch, OUTS)
    theta, x, y = (torch.randn(shape, generator=made) for shape in shapes)
    return theta, x, y, torch.tensor([True, False, True]), torch.tensor(0.03), torch.zeros(LANES, batch, INS)


def moved(theta: Tensor, lr: Tensor, d: Tensor, x: Tensor, active: Tensor) -> Tensor:
    return torch.where(active[:, None, None], theta - lr * torch.bmm(d.permute(0, 2, 1), x), theta)


def plain(theta: Tensor, x: Tensor, y: Tensor, active: Tensor, lr: Tensor, out: Tensor) -> None:
    d = torch.bmm(x, theta.permute(0, 2, 1)) - y
    dx = torch.bmm(d, theta.permute(0, 2, 1).permute(0, 2, 1).expand(LANES, OUTS, INS))
    new = moved(theta, lr, d, x, active)
    out.copy_(dx.relu() + 1)
    theta.copy_(new)


def read_later(theta: Tensor, x: Tensor, y: Tensor, active: Tensor, lr: Tensor, out: Tensor) -> None:
    d = torch.bmm(x, theta.permute(0, 2, 1)) - y
    dx = torch.bmm(d, theta)
    out.copy_(dx + theta.permute(0, 2, 1).exp().sum((1, 2))[:, None, None])
    theta.copy_(moved(theta, lr, d, x, active))


def read_before(theta: Tensor, x: Tensor, y: Tensor, active: Tensor, lr: Tensor, out: Tensor) -> None:
    d = torch.bmm(x, theta.permute(0, 2, 1)) - y
    large = theta.permute(0, 2, 1).exp().sum((1, 2))[:, None, None]
    out.copy_(torch.bmm(d, theta) + large)
    theta.copy_(moved(theta, lr, d, x, active))


def rate_of_gradient(theta: Tensor, x: Tensor, y: Tensor, active: Tensor, lr: Tensor, out: Tensor) -> None:
    d = torch.bmm(x, theta.permute(0, 2, 1)) - y
    dx = torch.bmm(d, theta)
    out.copy_(dx)
    theta.copy_(moved(theta, lr / dx.abs().max(), d, x, active))


def rate_that_changes(theta: Tensor, x: Tensor, y: Tensor, active: Tensor, lr: Tensor, out: Tensor) -> None:
    same = lr.view(())
    d = torch.bmm(x, theta.permute(0, 2, 1)) - y
    out.copy_(torch.bmm(d, theta))
    lr.mul_(2)
    theta.copy_(moved(theta, same, d, x, active))


def two_ways_back(theta: Tensor, x: Tensor, y: Tensor, active: Tensor, lr: Tensor, out: Tensor) -> None:
    d = torch.bmm(x, theta.permute(0, 2, 1)) - y
    out.copy_(torch.bmm(d, theta) + torch.bmm(d.square(), theta))
    theta.copy_(moved(theta, lr, d, x, active))


def back_of_one_sample(theta: Tensor, x: Tensor, y: Tensor, active: Tensor, lr: Tensor, out: Tensor) -> None:
    d = torch.bmm(x, theta.permute(0, 2, 1)) - y
    out.copy_(torch.bmm(d[:, :1], theta).expand(out.shape))
    theta.copy_(moved(theta, lr, d, x, active))


def no_way_back(theta: Tensor, x: Tensor, y: Tensor, active: Tensor, lr: Tensor, out: Tensor) -> None:
    d = torch.bmm(x, theta.permute(0, 2, 1)) - y
    theta.copy_(moved(theta, lr, d, x, active))


def written_twice(theta: Tensor, x: Tensor, y: Tensor, active: Tensor, lr: Tensor, out: Tensor) -> None:
    same = theta.permute(0, 2, 1)
    d = torch.bmm(x, same) - y
    out.copy_(torch.bmm(d, theta))
    theta.copy_(moved(theta, lr, d, x, active))
    same.mul_(0.5)


def with_another_step(theta: Tensor, x: Tensor, y: Tensor, active: Tensor, lr: Tensor, out: Tensor) -> None:
    d = torch.bmm(x, theta.permute(0, 2, 1)) - y
    out.copy_(torch.bmm(d, theta))
    theta.copy_(theta - lr * torch.bmm(d.permute(0, 2, 1), x).sign())


def traced(step: Callable[..., None], args: Given) -> fx.GraphModule:
    """A step's graph, in which FuseUpdate has been."""
    graph = make_fx(step)(*(each.clone() for each in args))
    FuseUpdate()(graph.graph)
    graph.recompile()
    return graph


def passed(step: Callable[..., None], args: Given) -> fx.GraphModule:
    """And this pass, too."""
    graph = traced(step, args)
    DenseLayers()(graph.graph)
    graph.recompile()
    return graph


def calls(graph: fx.GraphModule) -> Counter[str]:
    """How often the kernels are called, and what writes a step in place."""
    named = ("dense_outputs", "dense_step_", "baddbmm_")
    found = Counter(str(node.target).split(".")[1] for node in graph.graph.nodes if node.op == "call_function")
    return Counter({name: found[name] for name in named if found[name]})


@pytest.mark.usefixtures("small_ones_too")
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        (plain, BOTH),
        (read_before, BOTH),
        (read_later, FORWARD),
        (rate_of_gradient, FORWARD),
        (rate_that_changes, FORWARD),
        (two_ways_back, FORWARD),
        (back_of_one_sample, FORWARD),
        (no_way_back, FORWARD),
        (written_twice, FORWARD),
        (with_another_step, {"dense_outputs": 1}),
    ],
)
def test_what_is_called_is_what_stood_there(step: Callable[..., None], expected: dict[str, int]) -> None:
    args = given()
    before, after = traced(step, args), passed(step, args)
    assert calls(after) == expected
    right, ours = (tuple(each.clone() for each in args) for _ in range(2))
    before(*right)
    after(*ours)
    assert all(map(torch.equal, ours, right))
    assert not torch.equal(right[0], args[0]) and torch.equal(right[0][1], args[0][1]) is (step in ACTIVE_ALONE)


ACTIVE_ALONE = {
    plain,
    read_before,
    read_later,
    rate_of_gradient,
    rate_that_changes,
    two_ways_back,
    no_way_back,
    back_of_one_sample,
}
"""Steps that move lanes that are active alone."""


@pytest.mark.usefixtures("small_ones_too")
@pytest.mark.parametrize(("written", "expected"), [("lr_1", FORWARD), ("y_1", BOTH)])
def test_a_step_is_not_moved_over_a_users_kernel_that_may_write_what_it_reads(
    written: str, expected: dict[str, int]
) -> None:
    graph = traced(plain, given())
    named = {node.name: node for node in graph.graph.nodes}
    with graph.graph.inserting_after(named["copy_"]):
        graph.graph.call_function(triton_kernel_wrapper_mutation, (named[written],))
    DenseLayers()(graph.graph)
    assert calls(graph) == expected


@pytest.mark.usefixtures("small_ones_too")
def test_many_samples_are_left_to_others() -> None:
    assert calls(passed(plain, given(MOST))) == BOTH
    assert calls(passed(plain, given(MOST + 1))) == NEITHER


@pytest.mark.usefixtures("small_ones_too")
def test_a_square_matrix_is_not_taken_for_itself_turned() -> None:
    def across(theta: Tensor, x: Tensor, out: Tensor) -> None:
        out.copy_(torch.bmm(x, theta))

    square, x = torch.randn(LANES, INS, INS), torch.randn(LANES, BATCH, INS)
    assert calls(passed(across, (square, x, torch.zeros(LANES, BATCH, INS)))) == {}


@pytest.mark.parametrize(("name", "value"), [("LARGE", OUTS * INS + 1), ("NARROW", OUTS + 1)])
@pytest.mark.usefixtures("small_ones_too")
def test_small_layers_are_left_to_others(name: str, value: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_layers, name, value)
    assert calls(passed(plain, given())) == NEITHER


def test_nothing_changes_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense_layers, "LARGE", 1)
    monkeypatch.setattr(dense_layers, "NARROW", 1)
    before, after = traced(plain, given()), passed(plain, given())
    assert str(after.graph) == str(before.graph)


def test_kernels_are_for_float32_on_a_gpu() -> None:
    with FakeTensorMode():
        there = [torch.empty(2, device="cuda", dtype=dtype) for dtype in (torch.float32, torch.bfloat16, torch.float64)]
    assert [dense_layers.on_gpu(each) for each in [*there, torch.empty(2)]] == [True, False, False, False]


@pytest.mark.usefixtures("small_ones_too")
def test_other_numbers_are_left_to_others() -> None:
    args = tuple(each.double() if each.is_floating_point() else each for each in given())
    assert calls(passed(plain, args)) == NEITHER


def test_what_is_compiled_is_kept_by_what_the_pass_is() -> None:
    assert DenseLayers().uuid() == DenseLayers().uuid() != FuseUpdate().uuid()


def test_the_compiler_is_told_that_a_step_writes_weights_and_nothing_else() -> None:
    operators = torch.ops.fl_ddp.dense_outputs.default, torch.ops.fl_ddp.dense_step_.default
    told = [(each.name, each.alias_info) for operator in operators for each in operator._schema.arguments]
    assert [name for name, alias in told if alias is not None and alias.is_write] == ["theta"]
    assert not any(each.alias_info for operator in operators for each in operator._schema.returns)


@pytest.mark.parametrize("precision", ["ieee", "tf32"])
def test_factors_are_rounded_as_torch_s_products_have_it(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    theta, x, y, *_ = given()
    launch_outputs, launch_step = mock.Mock(return_value=y), mock.Mock(return_value=x)
    kernels = SimpleNamespace(launch_outputs=launch_outputs, launch_step=launch_step)
    monkeypatch.setitem(sys.modules, "fl_ddp.compiler.dense_kernel", kernels)
    before = torch.backends.cuda.matmul.fp32_precision
    torch.backends.cuda.matmul.fp32_precision = precision
    try:
        dense_layers.dense_outputs._init_fn(x, theta)
        dense_layers.dense_step._init_fn(theta, y, x, y + 1)
    finally:
        torch.backends.cuda.matmul.fp32_precision = before
    launch_outputs.assert_called_once_with(x, theta, MOST, tf32=precision == "tf32")
    (weights, scaled, inputs, d, rows), options = launch_step.call_args
    assert weights is theta and scaled is y and inputs is x and torch.equal(d, y + 1) and rows == MOST
    assert options == {"tf32": precision == "tf32"}
