"""One gradient of a model the way lanes compute it, before a run begins: what cannot be vectorised is told at once."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch.func import vmap

from fl_ddp.errors import ConfigError, one_line
from fl_ddp.guards.meanings import meaning_of
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import LANES, Batch, Leaves


def try_gradient(model: FlatModel, example: Tensor, y: Tensor, name: str, *, autocast: bool = False) -> None:
    """Compute the gradient for one lane with one sample, in training mode.

    Args:
        model: the network.
        example: [1, ...] one input.
        y: [1, ...] its target.
        name: of the module, for the message.
        autocast: whether local steps run in bfloat16 uncompiled, which some layers cannot that are compiled.

    Raises:
        ConfigError: the module cannot train several clients side by side, or draws random numbers by itself.
    """

    def loss(theta: Leaves, batch: Batch) -> Tensor:
        value = model.loss(theta, batch)
        if not value.requires_grad:
            what = f"{name}'s forward gives logits that no parameter has a part in"
            raise ConfigError("--model", what, "a forward without torch.no_grad() and detach() around all of it")
        return value

    def gradient(theta: Leaves, batch: Batch) -> tuple[Leaves, Tensor]:
        return model.gradient(loss, model.running, theta, batch)

    ones = torch.ones(1, 1, dtype=model.dtype, device=example.device)
    batch = Batch(x=example[None], y=y[None], mask=ones, key=ones[0].long())
    try:
        with warnings.catch_warnings(), torch.autocast(example.device.type, torch.bfloat16, enabled=autocast):
            warnings.simplefilter("ignore")  # torch's advice on what is about to fail
            leaves = tuple(leaf[None] for leaf in model.leaves(model.init()))
            vmap(gradient, in_dims=(0, LANES), randomness="error")(leaves, batch)
    except ConfigError:
        raise
    except Exception as error:  # a user's module may raise anything
        reason = one_line(error)
        if autocast and "BFloat16" in reason:
            what = f"bfloat16, but {name} has a layer that needs --compile true then ({reason})"
            raise ConfigError("--precision", what, "float32") from error
        meaning = meaning_of(reason, "torch.nn.Dropout layers, not functional.dropout") or f"fails under vmap: {reason}"
        raise ConfigError("--model", f"{name}'s forward {meaning}") from error
