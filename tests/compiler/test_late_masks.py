"""The pass that asks late where an activation passed its input on."""

from __future__ import annotations

import torch
from torch import fx

from fl_ddp.compiler.late_masks import LateMasks

aten = torch.ops.aten


def order(graph: fx.Graph) -> list[object]:
    """Operators of a graph after the pass, as they follow each other."""
    LateMasks()(graph)
    graph.lint()
    return [node.target for node in graph.nodes if node.op == "call_function"]


def test_a_mask_is_asked_for_behind_the_product_that_stores_its_activation() -> None:
    graph = fx.Graph()
    x, w = graph.placeholder("x"), graph.placeholder("w")
    relu = graph.call_function(aten.relu.default, (x,))
    mask = graph.call_function(aten.le.Scalar, (relu, 0))
    product = graph.call_function(aten.bmm.default, (relu, w))
    back = graph.call_function(aten.bmm.default, (product, w))
    graph.output((graph.call_function(aten.where.self, (mask, x, back)),))
    assert order(graph) == [aten.relu.default, aten.bmm.default, aten.bmm.default, aten.le.Scalar, aten.where.self]


def test_masks_of_masks_keep_their_order_and_the_first_user_counts() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    first = graph.call_function(aten.gt.Scalar, (x, 0))
    second = graph.call_function(aten.lt.Scalar, (first, 1))
    tan = graph.call_function(aten.tan.default, (x,))
    early = graph.call_function(aten.where.self, (first, x, tan))
    graph.output((graph.call_function(aten.where.self, (second, early, x)),))
    gt, lt, where = aten.gt.Scalar, aten.lt.Scalar, aten.where.self
    assert order(graph) == [aten.tan.default, gt, where, lt, where]


def test_no_mask_is_asked_for_behind_a_writing() -> None:
    graph = fx.Graph()
    x, y = graph.placeholder("x"), graph.placeholder("y")
    mask = graph.call_function(aten.ge.Scalar, (x, 0))
    graph.call_function(aten.copy_.default, (x, y))
    graph.output((graph.call_function(aten.where.self, (mask, x, y)),))
    assert order(graph) == [aten.ge.Scalar, aten.copy_.default, aten.where.self]
