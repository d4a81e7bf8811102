"""One layer of a module for another."""

from __future__ import annotations

from torch import nn


def replace_layer(module: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put new where old is, under each of its names."""
    for name in [n for n, m in module.named_modules(remove_duplicate=False) if m is old]:
        module.set_submodule(name, new)
