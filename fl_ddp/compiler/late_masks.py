"""A compiler pass: where an activation passed its input on is asked when that is needed, not before.

A gradient's graph asks this right behind the activation, before the next layer's product has it stored; torch's
compiler then computes the activation a second time, from its bias, and must do so in a kernel apart from the one that
writes the bias. Asked late, it is read from what is stored.
"""

from __future__ import annotations

import torch
from torch import fx

from fl_ddp.compiler.graph_pass import GraphPass
from fl_ddp.compiler.merge_equal import writes

_aten = torch.ops.aten
_MASKS = {_aten.le.Scalar, _aten.lt.Scalar, _aten.ge.Scalar, _aten.gt.Scalar}


class LateMasks(GraphPass):
    """The pass, as Inductor's post-grad hook takes it."""

    def __call__(self, graph: fx.Graph) -> None:
        """Rewrite a graph in place; nothing is asked behind what writes into tensors."""
        place: dict[fx.Node, float] = {node: i for i, node in enumerate(graph.nodes)}
        last = min((place[node] for node in graph.nodes if writes(node)), default=len(place))
        for node in reversed(list(graph.nodes)):
            if node.target not in _MASKS or not node.users:
                continue
            user = min(node.users, key=place.__getitem__)
            if place[user] <= last:
                user.prepend(node)
                place[node] = place[user] - 0.5
        graph.lint()
