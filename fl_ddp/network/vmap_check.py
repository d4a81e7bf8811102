"""One gradient of a model the way lanes compute it, before a run begins: what cannot be vectorised is told at once."""

from __future__ import annotations

import warnings

import torch
from torch import Tensor
from torch.func import vmap

from fl_ddp.errors import ConfigError, one_line
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import LANES, Batch, Leaves

# Part of what torch says, what it means in a user's module, and the way out; the first that fits counts.
_MEANINGS = (
    (
        "random operation",
        "draws random numbers that no seed of the run decides; use torch.nn.Dropout layers, not functional.dropout",
    ),
    ("dynamic shape", "has shapes that depend on values (such as x[x > 0] or nonzero); use torch.where"),
    (
        "calling .item()",
        "depends on values outside of tensors (such as .item(), if, while, float() or one_hot); use torch.where",
    ),
    ("data pointer", "turns tensors into numbers or numpy arrays; use torch's functions of tensors alone"),
)


def try_gradient(model: FlatModel, example: Tensor, y: Tensor, name: str) -> None:
    """Compute the gradient for one lane with one sample, in training mode.

    Args:
        model: the network.
        example: [1, ...] one input.
        y: [1, ...] its target.
        name: of the module, for the message.

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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch's advice on what is about to fail
            leaves = tuple(leaf[None] for leaf in model.leaves(model.init()))
            vmap(gradient, in_dims=(0, LANES), randomness="error")(leaves, batch)
    except ConfigError:
        raise
    except Exception as error:  # a user's module may raise anything
        reason = one_line(error)
        meaning = next((meaning for part, meaning in _MEANINGS if part in reason), f"fails under vmap: {reason}")
        raise ConfigError("--model", f"{name}'s forward {meaning}") from error
