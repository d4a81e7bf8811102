"""Layers of a module: those that lack their sizes are refused, others can be replaced."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin

from fl_ddp.errors import ConfigError


class SeenLinear(nn.Module):
    """A linear layer that shows its input, the representation of a module that returns logits alone."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.seen: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [..., out] for x [..., in], which stays in seen."""
        self.seen = x
        out: Tensor = self.linear(x)
        return out


def replace_layer(module: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put new where old is, under each of its names."""
    for name in [n for n, m in module.named_modules(remove_duplicate=False) if m is old]:
        module.set_submodule(name, new)


def require_sizes(module: nn.Module) -> None:
    """Raises ConfigError if a layer learns its sizes from its first batch: it has no parameters before."""
    for name, layer in module.named_modules():
        if isinstance(layer, LazyModuleMixin) and layer.has_uninitialized_params():  # type: ignore[misc]
            what = f"{type(module).__name__} has {type(layer).__name__} at {name!r}, which does not know its sizes"
            raise ConfigError("--model", what, "layers that are given them, such as torch.nn.BatchNorm2d(64)")
