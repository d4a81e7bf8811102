"""The pass that computes once what stands twice in a graph."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, fx
from torch._higher_order_ops.triton_kernel_wrap import triton_kernel_wrapper_mutation
from torch.fx.experimental.proxy_tensor import make_fx

from fl_ddp.compiler.merge_equal import MergeEqual

aten = torch.ops.aten


def merged(*calls: tuple[Any, ...]) -> list[int]:
    """Which calls, each an operator and its arguments, are left; x and y are tensors, a number is a call's result."""
    graph = fx.Graph()
    given = {"x": graph.placeholder("x"), "y": graph.placeholder("y")}
    made: list[fx.Node] = []
    for operator, *args in calls:
        nodes: Any = tuple(
            made[a.of] if isinstance(a, Made) else given.get(a, a) if isinstance(a, str) else a for a in args
        )
        made.append(graph.call_function(operator, nodes))
    used = graph.call_function(aten.stack.default, (made,))
    graph.output((used,))
    MergeEqual()(graph)
    left = {node for node in graph.nodes if node.op == "call_function"}
    return [i for i, node in enumerate(made) if node in left]


class Made(NamedTuple):
    """The result of a call before."""

    of: int


def test_what_is_computed_twice_is_computed_once() -> None:
    add, tan = aten.add.Tensor, aten.tan.default
    assert merged((tan, "x"), (tan, "y"), (tan, "x"), (tan, "y"), (tan, "x")) == [0, 1]
    assert merged((aten.permute.default, "x", [0, 1]), (aten.permute.default, "x", [0, 1])) == [0]
    assert merged((aten.permute.default, "x", [0, 1]), (aten.permute.default, "x", [1, 0])) == [0, 1]
    assert merged((add, "x", "y"), (add, "y", "x")) == [0, 1], "which is as much, and never stood there twice"
    assert merged((add, "x", 1), (add, "x", 1.0), (add, "x", True)) == [0, 1, 2], "of other types"
    assert merged((aten.div.Tensor, "x", 0.0), (aten.div.Tensor, "x", -0.0)) == [0, 1]


def test_draws_and_what_is_written_between_are_never_merged() -> None:
    assert merged((aten.rand_like.default, "x"), (aten.rand_like.default, "x")) == [0, 1]
    read, write = (aten.tan.default, "x"), (aten.copy_.default, "x", "y")
    assert merged(read, write, read, write, read) == [0, 1, 2, 3, 4]
    assert merged(read, (triton_kernel_wrapper_mutation, "x"), read) == [0, 1, 2], "as a user's kernel may"


def test_what_is_returned_or_written_keeps_memory_of_its_own() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    both = [graph.call_function(aten.exp.default, (x,)) for _ in range(2)]
    views = [graph.call_function(aten.view.default, (node, [-1])) for node in both]
    graph.output(tuple(views))
    MergeEqual()(graph)
    assert set(both) | set(views) <= set(graph.nodes)
    write = (aten.relu_.default, Made(0))
    assert merged((aten.clone.default, "x"), (aten.clone.default, "x"), write) == [0, 1, 2]
    empty = (aten.empty.memory_format, [3])
    assert merged(empty, empty, (aten.empty_like.default, "x"), (aten.empty_like.default, "x")) == [0, 1, 2, 3]


def test_operators_of_others_may_draw() -> None:
    @torch.library.custom_op("of_a_user::noise", mutates_args=())
    def noise(x: Tensor) -> Tensor:
        return torch.empty_like(x)

    drawn = (torch.ops.of_a_user.noise.default, "x")
    assert merged(drawn, drawn) == [0, 1]


def test_what_follows_equals_is_equal_too() -> None:
    def twice(x: Tensor) -> Tensor:
        return (x.sin().t().clone() * 2).relu() + (x.sin().t().clone() * 2).relu().cos()

    x = torch.linspace(-2, 2, 12).view(3, 4)
    graph = make_fx(twice)(x)
    right, before = graph(x), len(graph.graph.nodes)
    MergeEqual()(graph.graph)
    graph.recompile()
    assert torch.equal(graph(x), right)
    assert len(graph.graph.nodes) == before - 5
