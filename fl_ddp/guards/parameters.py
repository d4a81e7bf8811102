"""What a model's parameters may not be: what cannot be trained as it is."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.utils._pytree import tree_leaves

from fl_ddp.errors import ConfigError


def require_plain_parameters(module: nn.Module) -> None:
    """Refuse a module whose parameters are not what they are trained as.

    Raises:
        ConfigError: a layer learns its sizes from its first batch, or keeps a tensor that was computed of parameters,
            nobody would call a hook that is on a gradient, or they are in bfloat16, which the files of results do not
            have.
    """
    for name, layer in module.named_modules():
        if isinstance(layer, LazyModuleMixin) and layer.has_uninitialized_params():  # type: ignore[misc]
            what = f"{type(module).__name__} has {type(layer).__name__} at {name!r}, which does not know its sizes"
            raise ConfigError("--model", what, "layers that are given them, such as torch.nn.BatchNorm2d(64)")
        for own, kept in {**layer._buffers, **vars(layer)}.items():
            if any(isinstance(each, Tensor) and each.grad_fn is not None for each in tree_leaves(kept)):
                what = f"{type(layer).__name__} at {name!r} keeps {own}, which was computed of parameters beforehand"
                instead = "its computation in forward(), None or a detached tensor until then, or parametrizations"
                raise ConfigError("--model", what, f"{instead} of torch.nn.utils")
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and parameter.dtype == torch.bfloat16:
            what = f"{type(module).__name__} has {name} in bfloat16"
            raise ConfigError("--model", what, "float32, and --precision bfloat16 for arithmetic with them")
        if parameter._backward_hooks:
            what = f"{type(module).__name__} has a hook on the gradient of {name}, which nobody calls"
            raise ConfigError("--model", what, "a method's correct(), or project()")
