"""A compiler pass: what a graph computes twice, it computes and stores once.

A gradient's graph has the images that a convolution was given, and masks, once for each way; torch's compiler merges
such twins where it splits ways into two graphs, and not where both are one, as in a local step. Its own function for
that gives another graph, where a pass must change the one it is given.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

from fl_ddp.compiler.graph_pass import GraphPass

_PURE = ("aten", "prims", "fl_ddp")
"""Where operators that are not marked as random are none; a user's may draw."""


class MergeEqual(GraphPass):
    """The pass, as Inductor's post-grad hook takes it."""

    def __init__(self, *then: GraphPass) -> None:
        """Remember what passes follow; before 2.15 torch takes but one."""
        self._then = then

    def __call__(self, graph: fx.Graph) -> None:
        """Rewrite a graph in place; what is returned or written keeps memory of its own."""
        first: dict[Hashable, fx.Node] = {}
        apart = set(_with_memory_of_their_own(graph.nodes))
        for node in list(graph.nodes):
            if writes(node):
                first.clear()  # what is written may be read with another result from here on
            elif node not in apart and _is_pure(node):
                same = first.setdefault((node.target, _frozen(node.args), _frozen(node.kwargs)), node)
                if same is not node:
                    node.replace_all_uses_with(same)
                    graph.erase_node(node)
        graph.lint()
        for each in self._then:
            each(graph)

    def uuid(self) -> tuple[object, ...]:
        """What compiled graphs are cached by, beside the graph itself."""
        return super().uuid(), *(each.uuid() for each in self._then)


def _is_pure(node: fx.Node) -> bool:
    """Whether a node's result depends on its arguments alone."""
    target = node.target
    if not isinstance(target, OpOverload) or target.namespace not in _PURE:
        return False
    return "empty" not in target._schema.name and torch.Tag.nondeterministic_seeded not in target.tags


def writes(node: fx.Node) -> bool:
    """Whether an operator writes into one of its arguments, or may do so, as a user's Triton kernel may."""
    return isinstance(node.target, HigherOrderOperator) or (
        isinstance(node.target, OpOverload) and node.target._schema.is_mutable
    )


def _with_memory_of_their_own(nodes: Iterable[fx.Node]) -> Iterator[fx.Node]:
    """What a graph returns or writes into, and what that is a view of."""
    for node in nodes:
        if node.op != "output" and not writes(node):
            continue
        for part in node.all_input_nodes:
            base: fx.Node | None = part
            while base is not None:
                yield base
                base = viewed(base)


def viewed(node: fx.Node) -> fx.Node | None:
    """What a node is a view of, or may be."""
    aliased = isinstance(node.target, OpOverload) and any(each.alias_info for each in node.target._schema.returns)
    return node.all_input_nodes[0] if aliased and node.all_input_nodes else None


def _frozen(given: object) -> Hashable:
    """Arguments as something that is equal where they are; 1, 1.0 and True are not."""
    if isinstance(given, dict):
        return tuple((name, _frozen(value)) for name, value in given.items())
    if isinstance(given, list | tuple):
        return tuple(map(_frozen, given))
    return type(given), repr(given) if isinstance(given, float | complex) else given
