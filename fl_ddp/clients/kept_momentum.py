"""SGD's momentum from round to round, where clients go on with it."""

from __future__ import annotations

import torch
from torch import Tensor

from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Tensors

OWN = "sgd_momentum"
"""Its name in a client's memory."""


def first_momentum(model: FlatModel) -> Tensors:
    """A client's momentum [P] before it first takes part: zero."""
    return {OWN: torch.zeros_like(model.init())}


def kept_momentum(momentum: Tensor | None) -> Tensors:
    """What a group's clients remember of it [G, P]; nothing where every round begins anew."""
    return {} if momentum is None else {OWN: momentum}
