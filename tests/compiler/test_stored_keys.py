"""The pass that stores what noise begins with, before it is spread over samples."""

from __future__ import annotations

import torch
from torch import Tensor, fx
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from fl_ddp.compiler.stored_keys import StoreKeys

G, N = 3, 5
aten = torch.ops.aten


def stored(device: str, *, computed: bool = True) -> list[fx.Node]:
    """What the pass stores of keys [G, 1] that are mixed with positions [N]."""

    def mixed(key: Tensor, position: Tensor) -> Tensor:
        return (key * 3 if computed else key) ^ (position + 1)

    with FakeTensorMode():
        given = (torch.ones(*shape, dtype=torch.int64, device=device) for shape in ((G, 1), (N,)))
        graph = make_fx(mixed)(*given).graph
    StoreKeys()(graph)
    return [node.all_input_nodes[0] for node in graph.nodes if node.target is torch.ops.fl_ddp.stored.default]


def test_a_gpu_stores_a_number_for_each_key_and_not_for_each_position() -> None:
    assert [node.target for node in stored("cuda")] == [aten.mul.Tensor]
    assert not stored("cuda", computed=False), "it is stored already"
    assert not stored("cpu")
