"""Graphs of lanes' gradients, as compiler passes are given them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import torch
from torch import Tensor, fx, nn
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx

G, B = 3, 2
"""Lanes, and images of each."""


def gradients(layer: nn.Module) -> Callable[[dict[str, Tensor], Tensor], tuple[dict[str, Tensor], Tensor]]:
    """Lanes' gradients in a layer's parameters and its inputs."""

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        out: Tensor = functional_call(layer, parameters, (x,))
        return out.sin().sum()

    return vmap(grad(loss, argnums=(0, 1)))


def traced(
    layer: nn.Module, shape: tuple[int, ...], batch: int = B
) -> tuple[fx.GraphModule, tuple[dict[str, Tensor], Tensor]]:
    """The graph of a layer's gradients, and what to give it."""
    own = {name: torch.randn(G, *p.shape, dtype=torch.float64) for name, p in layer.named_parameters()}
    x = torch.randn(G, batch, *shape, dtype=torch.float64)
    return make_fx(gradients(layer), tracing_mode="fake")(own, x), (own, x)


def called(module: fx.GraphModule) -> Counter[str]:
    """How often a graph calls our operators."""
    names = (str(node.target) for node in module.graph.nodes if node.op == "call_function")
    return Counter(name.split(".")[1] for name in names if name.startswith("fl_ddp."))
