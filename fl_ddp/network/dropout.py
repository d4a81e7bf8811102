"""Dropout whose masks are functions of a key."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from fl_ddp.engine.seeds import uniform
from fl_ddp.errors import ConfigError
from fl_ddp.network.layers import replace_layer


class KeyedDropout(nn.Module):
    """Dropout whose mask is a function of the batch's key, not of a generator's state."""

    key: Tensor

    def __init__(self, p: float, stream: int) -> None:
        super().__init__()
        self.p, self.stream = p, stream
        self.register_buffer("key", torch.zeros((), dtype=torch.int64), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """Drop each element of x with probability p and scale the others by 1 / (1 - p)."""
        if not self.training or self.p == 0:
            return x
        if self.p == 1:  # x / 0 has no gradient
            return torch.zeros_like(x)
        kept = uniform(self.key, self.stream, x.shape) >= self.p
        # a layer that is called twice draws anew; functional_call undoes this at its end
        self.key = self.key + 1
        return torch.where(kept, x / (1 - self.p), torch.zeros_like(x))


def make_dropout_keyed(module: nn.Module) -> Sequence[str]:
    """Replace every dropout layer of a module in place; the names of their keys."""
    found = [n for n, m in module.named_modules() if isinstance(m, nn.modules.dropout._DropoutNd)]
    for stream, name in enumerate(found):
        layer = module.get_submodule(name)
        if type(layer) is not nn.Dropout:
            raise ConfigError("--model", f"{type(layer).__name__} at {name!r} is not supported; use torch.nn.Dropout")
        replace_layer(module, layer, KeyedDropout(layer.p, stream).to(next(module.parameters()).device))
    return [f"{name}.key" for name in found]
