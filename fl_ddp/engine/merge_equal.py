"""A compiler pass: what a graph computes twice, it computes and stores once.

A gradient's graph has the images that a convolution was given, and masks, once for each way; torch's compiler merges
such twins where it splits ways into two graphs, and not where both are one, as in a local step.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch
from torch import fx
from torch._inductor.custom_graph_pass import CustomGraphPass, get_hash_for_files
from torch._ops import OpOverload


class MergeEqual(CustomGraphPass):
    """The pass, as Inductor's post-grad hook takes it."""

    def __call__(self, graph: fx.Graph) -> None:
        """Rewrite a graph in place."""
        first: dict[Hashable, fx.Node] = {}
        for node in list(graph.nodes):
            if node.op != "call_function" or not isinstance(node.target, OpOverload):
                continue
            if node.target._schema.is_mutable:
                first.clear()  # what is written may be read with another result from here on
            elif torch.Tag.nondeterministic_seeded not in node.target.tags:
                same = first.setdefault((node.target, _frozen(node.args), _frozen(node.kwargs)), node)
                if same is not node:
                    node.replace_all_uses_with(same)
                    graph.erase_node(node)
        graph.lint()

    def uuid(self) -> bytes:
        """What compiled graphs are cached by, beside the graph itself."""
        return get_hash_for_files((__file__,))


class InOrder(CustomGraphPass):
    """Several passes as one."""

    def __init__(self, passes: Sequence[CustomGraphPass]) -> None:
        """Remember them."""
        self._passes = passes

    def __call__(self, graph: fx.Graph) -> None:
        """Rewrite a graph in place."""
        for each in self._passes:
            each(graph)

    def uuid(self) -> tuple[object, ...]:
        """What compiled graphs are cached by, beside the graph itself."""
        return tuple(each.uuid() for each in self._passes)


def _frozen(given: object) -> Hashable:
    """Arguments as something that is equal where they are; 1, 1.0 and True are not."""
    if isinstance(given, dict):
        return tuple((name, _frozen(value)) for name, value in given.items())
    if isinstance(given, list | tuple):
        return tuple(map(_frozen, given))
    return type(given), repr(given) if isinstance(given, float) else given
