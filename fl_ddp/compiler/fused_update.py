"""A compiler pass: a matrix product is added in place to the matrix that it would be stored beside, to be added.

Written as theta - lr * (d^T x), a plain SGD step of a linear layer stores the gradient, a whole model per lane, only to
read it once. BLAS can add a product to a matrix, so the pass turns theta <- where(active, theta - lr * (a @ b), theta)
into theta += (-lr * active * a) @ b, and on a GPU total <- total + a @ b into total += a @ b, which sums of squared
gradients are. Whatever does not look like that (momentum, penalties, convolutions) is left alone.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._inductor.lowering import lowerings, make_fallback

from fl_ddp.compiler.graph_pass import GraphPass

_aten = torch.ops.aten
_added = _aten.baddbmm_.default


class FuseUpdate(GraphPass):
    """The pass, as Inductor's post-grad hook takes it."""

    def __call__(self, graph: fx.Graph) -> None:
        """Rewrite a graph in place."""
        if _added not in lowerings:
            # torch's own way to leave an operator as it is, for want of which it would mind the variable CI
            make_fallback(_added, warn=False, override_decomp=True)  # type: ignore[no-untyped-call]
        for copy in graph.find_nodes(op="call_function", target=_aten.copy_.default):
            theta, new = copy.args
            if not (isinstance(theta, fx.Node) and theta.op == "placeholder"):
                continue
            with graph.inserting_before(copy):
                if found := _step(theta, new):
                    active, lr, a, b = found
                    step = graph.call_function(_aten.mul.Tensor, (a, graph.call_function(_aten.neg.default, (lr,))))
                    scaled = graph.call_function(_aten.where.ScalarOther, (active, step, 0.0))
                    graph.call_function(_added, (theta, scaled, b))
                elif product := _summand(theta, new):
                    graph.call_function(_added, (theta, *product))
                else:
                    continue
            graph.erase_node(copy)
        graph.eliminate_dead_code()
        graph.lint()


def _step(theta: fx.Node, new: object) -> tuple[fx.Node, fx.Node, fx.Node, fx.Node] | None:
    """The parts active, lr, a, b of theta <- where(active, theta - lr * (a @ b), theta); None if it is not that."""
    active, moved, kept = _arguments(new, _aten.where.self) or (None, None, None)
    before, change = _arguments(moved, _aten.sub.Tensor) or (None, None)
    lr, product = _arguments(change, _aten.mul.Tensor) or (None, None)
    a, b = _arguments(product, _aten.bmm.default) or (None, None)
    nodes = [node for node in (active, lr, a, b) if isinstance(node, fx.Node)]
    if kept is not theta or before is not theta or len(nodes) < 4 or nodes[1].meta["val"].ndim > 0:
        return None
    return nodes[0], nodes[1], nodes[2], nodes[3]


def _summand(total: fx.Node, new: object) -> tuple[fx.Node, fx.Node] | None:
    """The matrices of total <- total + a @ b on a GPU; None if it is not that. A CPU's bits are those of a sum."""
    before, added = _arguments(new, _aten.add.Tensor) or (None, None)
    a, b = _arguments(added, _aten.bmm.default) or (None, None)
    if before is not total or total.meta["val"].device.type == "cpu":
        return None
    return (a, b) if isinstance(a, fx.Node) and isinstance(b, fx.Node) else None


def _arguments(node: object, target: object) -> tuple[object, ...] | None:
    """The arguments of a call of a target whose result is used once; None if the node is not that."""
    if isinstance(node, fx.Node) and node.target is target and len(node.users) == 1 and not node.kwargs:
        return node.args
    return None
