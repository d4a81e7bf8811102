"""Weights that a notebook has, as the file that --init reads."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from safetensors.torch import save
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from fl_ddp.errors import ConfigError
from fl_ddp.notebook.given_file import GivenFile
from fl_ddp.protocol import form_of

_ACCEPTED = "dense tensors by name, as of state_dict()"


def weights_file(given: nn.Module | Mapping[str, object]) -> GivenFile:
    """What --init reads, of a state_dict() or of a module that has one.

    Raises:
        ConfigError: there is something else than a tensor in it.
    """
    found = dict(given.state_dict() if isinstance(given, nn.Module) else given)
    tensors: dict[str, Tensor] = {}
    for name, each in found.items():
        if not isinstance(each, Tensor) or is_lazy(each) or each.is_meta or each.layout != torch.strided:
            raise ConfigError("init", f"{name!r} is {type(each).__name__} without numbers of its own", _ACCEPTED)
        if each.is_complex() or each.is_quantized:
            raise ConfigError("init", f"{name!r} is {form_of(each)}", _ACCEPTED)
        tensors[str(name)] = each.detach().cpu().clone().contiguous()  # tied weights have to lie apart in the file
    content = save(tensors)
    return GivenFile.of(content, ".safetensors")
