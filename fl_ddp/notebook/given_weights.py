"""Weights that a notebook has, as the file that --init reads."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor, nn

from fl_ddp.errors import ConfigError
from fl_ddp.notebook.given_file import GivenFile


def weights_file(given: nn.Module | Mapping[str, object]) -> GivenFile:
    """What --init reads, of a state_dict() or of a module that has one.

    Raises:
        ConfigError: there is something else than a tensor in it.
    """
    found = dict(given.state_dict() if isinstance(given, nn.Module) else given)
    tensors: dict[str, Tensor] = {}
    for name, each in found.items():
        if not isinstance(each, Tensor):
            raise ConfigError("init", f"{name!r} is {type(each).__name__}", "tensors by name, as of state_dict()")
        tensors[str(name)] = each.detach().cpu().clone().contiguous()  # tied weights have to lie apart in the file
    content = save(tensors)
    return GivenFile(f"{hashlib.sha256(content).hexdigest()[:16]}.safetensors", lambda file: file.write(content))
