"""The pass that computes once what stands twice in a graph."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

from fl_ddp.engine.merge_equal import MergeEqual


def merged(*calls: tuple[Any, ...]) -> list[int]:
    """Which calls, each an operator and its arguments, are left; x and y are tensors."""
    graph = fx.Graph()
    given = {"x": graph.placeholder("x"), "y": graph.placeholder("y")}
    made = []
    for operator, *args in calls:
        nodes = [given.get(arg, arg) if isinstance(arg, str) else arg for arg in args]
        made.append(graph.call_function(operator, tuple(nodes)))
    graph.output(tuple(made))
    MergeEqual()(graph)
    left = [node for node in graph.nodes if node.op == "call_function"]
    return [made.index(node) for node in left]


def test_what_is_computed_twice_is_computed_once() -> None:
    aten = torch.ops.aten
    add, tan = aten.add.Tensor, aten.tan.default
    assert merged((tan, "x"), (tan, "y"), (tan, "x"), (tan, "y"), (tan, "x")) == [0, 1]
    assert merged((aten.permute.default, "x", [0, 1]), (aten.permute.default, "x", [0, 1])) == [0]
    assert merged((aten.permute.default, "x", [0, 1]), (aten.permute.default, "x", [1, 0])) == [0, 1]
    assert merged((add, "x", "y"), (add, "y", "x")) == [0, 1], "which is as much, and never stood there twice"
    assert merged((add, "x", 1), (add, "x", 1.0), (add, "x", True)) == [0, 1, 2], "of other types"
    assert merged((aten.div.Tensor, "x", 0.0), (aten.div.Tensor, "x", -0.0)) == [0, 1]


def test_draws_and_what_is_written_between_are_never_merged() -> None:
    aten = torch.ops.aten
    assert merged((aten.rand_like.default, "x"), (aten.rand_like.default, "x")) == [0, 1]
    read, write = (aten.tan.default, "x"), (aten.copy_.default, "x", "y")
    assert merged(read, write, read, write, read) == [0, 1, 2, 3, 4]


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
