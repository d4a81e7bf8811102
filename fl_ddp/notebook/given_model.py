"""A model that a notebook made, by a name that a configuration can hold."""

from __future__ import annotations

import hashlib
from copy import deepcopy

import torch
from torch import nn

from fl_ddp.errors import ConfigError
from fl_ddp.guards.parameters import require_plain_parameters


def given_model(*, given: nn.Module | None = None, kind: str = "", sha256: str = "") -> nn.Module:
    """A copy of the module that simulate() was given; the run begins with its parameters.

    Args:
        given: the module; the run hands it on.
        kind: name of its class.
        sha256: its fingerprint, so that a run goes on with no other module.

    Raises:
        ConfigError: there is none, as where a command goes on with a notebook's run.
    """
    if given is None:
        what = f"was a {kind} of a notebook, which alone has it"
        raise ConfigError("--model", what, "fl_ddp.simulate(..., model=...) with that module")
    return deepcopy(given)


GIVEN = f"{given_model.__module__}.{given_model.__name__}"
"""What a configuration has for the class of a notebook's module."""


def fingerprint(module: nn.Module) -> str:
    """sha256 of a module's layers, parameters and buffers.

    Raises:
        ConfigError: it has layers without sizes.
    """
    require_plain_parameters(module)
    found = hashlib.sha256(str(module).encode())
    for name, tensor in module.state_dict().items():
        found.update(f"{name} {tensor.dtype} {list(tensor.shape)}".encode())
        found.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes())
    return found.hexdigest()
