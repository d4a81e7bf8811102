"""What a user's loss makes of a batch that is not full: rows of padding may not count, whatever they hold."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Protocol
from weakref import WeakSet

import torch
from torch import Tensor
from torch.func import vmap

from fl_ddp.errors import ConfigError, is_users, place_of_hook
from fl_ddp.protocol import LANES, Batch, Leaves

_LOSS = ("loss", "gradient")
_OTHERS = ("penalty", "correct", "priors", "project", "track")
_ROUNDING = 1e-4
"""Of a leaf's largest number, by which a gradient may differ."""
_log = logging.getLogger(__name__)
_seen: WeakSet[type] = WeakSet()


class Loss(Protocol):
    """What is looked at of an objective; see engine.step."""

    @property
    def running(self) -> tuple[int, ...]:
        """Leaves that are running statistics."""

    @property
    def gradient(self) -> Callable[..., tuple[Leaves, Tensor]]:
        """Gradient of the loss in all leaves, and the loss."""


def is_unseen(objective: object) -> bool:
    """Whether functions of one client are a user's own, of a class that was not looked at in this process."""
    return type(objective) not in _seen and _users(objective, *_LOSS, *_OTHERS) is not None


def look_at_loss(
    objective: Loss, theta: Leaves, server: Mapping[str, object], mine: Mapping[str, object], batch: Batch
) -> None:
    """Take gradients of a user's loss on batches whose second half is padding, filled with one thing and another.

    After a step that has succeeded: its class counts as looked at, unless it is refused.

    Args:
        objective: whose loss it is.
        theta: leaves [G, ...].
        server: tensors of the server's.
        mine: of the clients' [G, ...].
        batch: of all lanes, the inputs as the network takes them.

    Raises:
        ConfigError: the gradient depends on what the padding holds.
    """
    _seen.add(type(objective))
    size, hook = batch.mask.shape[1], _users(objective, *_LOSS)
    if size < 2 or hook is None:
        return
    rows = torch.arange(size, device=batch.mask.device)
    half = batch._replace(mask=(rows < size // 2).to(batch.mask).expand_as(batch.mask))
    others = torch.where(rows < size // 2, rows, rows.flip(0))  # the real samples once more
    again = half._replace(x=batch.x[:, others], y=batch.y[:, others])

    def gradient(theta: Leaves, batch: Batch, mine: Mapping[str, object]) -> Leaves:
        return objective.gradient(theta, batch, server, mine)[0]

    lanes = vmap(gradient, in_dims=(0, LANES, 0))
    found, other = lanes(theta, half, mine), lanes(theta, again, mine)
    who = place_of_hook(type(objective), hook)
    if not all(map(_alike, found, other)):
        _seen.discard(type(objective))  # a notebook may try it again
        accepted = "a mean over real samples alone, such as mean_over(batch.mask, each) of fl_ddp.api"
        raise ConfigError(who, "counts rows of a batch that are padding, where batch.mask is 0", accepted)
    if objective.running and all(found[i].equal(theta[i]) for i in objective.running):
        way = "self.model.logits(theta, batch.x, batch.key, batch.mask) would be in training mode"
        _log.info("warning: %s: the model is in evaluation mode: no running statistics change; %s", who, way)


def _alike(found: Tensor, other: Tensor) -> bool:
    if not bool(found.isfinite().all() & other.isfinite().all()):
        return True  # which training itself tells
    return bool((found - other).abs().max() <= _ROUNDING * found.abs().max())


def _users(objective: object, *hooks: str) -> str | None:
    """The first of some functions that is a user's own."""
    for hook in hooks:
        code = getattr(getattr(type(objective), hook, None), "__code__", None)
        if code is not None and is_users(code.co_filename):
            return hook
    return None
