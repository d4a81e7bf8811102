"""A compiler pass: what noise begins with, a number for each key, is stored on a GPU before it is spread over samples.

A hash takes its word twice in each of its turns, and torch's compiler writes out what a number is made of wherever that
is taken: with a key's two hashes inside of each element's, it spends a minute on a network with dropout.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._inductor.lowering import register_lowering

from fl_ddp.compiler.graph_pass import GraphPass

_mixed = torch.ops.aten.bitwise_xor.Tensor
_library = torch.library.Library("fl_ddp", "FRAGMENT")  # type: ignore[no-untyped-call]
_library.define("stored(Tensor x) -> Tensor")  # type: ignore[no-untyped-call]
_library.impl("stored", torch.empty_like, "Meta")  # type: ignore[no-untyped-call]
_stored = torch.ops.fl_ddp.stored.default


@register_lowering(_stored, type_promotion_kind=None)
def _lowered(x: Any) -> Any:
    x.realize()
    return x


class StoreKeys(GraphPass):
    """The pass, as Inductor's post-grad hook takes it."""

    def __call__(self, graph: fx.Graph) -> None:
        """Rewrite a graph in place."""
        for node in graph.find_nodes(op="call_function", target=_mixed):
            mixed, word = node.meta["val"], min(node.all_input_nodes, key=lambda given: given.meta["val"].numel())
            if mixed.is_cuda and word.op != "placeholder" and word.meta["val"].numel() < mixed.numel():
                with graph.inserting_before(node):
                    stored = graph.call_function(_stored, (word,))
                stored.meta["val"] = word.meta["val"]
                node.replace_input_with(word, stored)
        graph.lint()
