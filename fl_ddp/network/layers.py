"""Layers of a module: one is put in another's place, and the last one shows what logits are made of."""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor, nn


class SeenLinear(nn.Module):
    """A linear layer that shows its input, the representation of a module that returns logits alone."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear
        self.seen: Tensor | None = None

    def __getattr__(self, name: str) -> Any:
        """What a user's forward() asks of the linear layer: its weight, or in_features."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("linear"), name)

    def forward(self, x: Tensor) -> Tensor:
        """Outputs [..., out] for x [..., in], which stays in seen."""
        self.seen = x
        out: Tensor = self.linear(x)
        return out


def replace_layer(module: nn.Module, old: nn.Module, new: nn.Module) -> None:
    """Put new where old is, under each of its names."""
    for name in [n for n, m in module.named_modules(remove_duplicate=False) if m is old]:
        module.set_submodule(name, new)


def show_last_input(
    train: nn.Module, tested: nn.Module, example: Tensor, logits: Tensor
) -> tuple[str, dict[bool, SeenLinear]] | None:
    """Wrap the last linear layer of a module that returns logits alone, if the logits are its output.

    Args:
        train: the module in training mode.
        tested: a copy in evaluation mode.
        example: [1, ...] one input.
        logits: that the copy gives for it.

    Returns:
        the layer's name, and what shows its input in training and in evaluation mode; None where there is no such.
    """
    last = next((n for n, m in reversed(list(tested.named_modules())) if isinstance(m, nn.Linear)), None)
    if not last:
        return None
    seen: list[Tensor] = []
    hook = tested.get_submodule(last).register_forward_hook(lambda _, __, output: seen.append(output))
    with torch.no_grad():
        tested(example)
    hook.remove()
    if len(seen) != 1 or not torch.equal(seen[0], logits):
        return None
    shown = dict[bool, SeenLinear]()
    for module in (train, tested):
        linear = module.get_submodule(last)
        shown[module is train] = SeenLinear(cast(nn.Linear, linear))
        replace_layer(module, linear, shown[module is train])
    return last, shown
