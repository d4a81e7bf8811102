"""What clients hand over of whom a part of the model stays with them."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fl_ddp.network.flat_model import FlatModel, Part
from fl_ddp.protocol import Tensors, Term, Trained, Upload


def first_own(model: FlatModel, name: str, part: Part) -> Tensors:
    """A client's memory before it first takes part: what all begin with, by a name."""
    return {name: model.take(model.init(), part)}


def bytes_beside(model: FlatModel, part: Part) -> int:
    """Bytes of what travels."""
    return model.take(model.init(), model.others(part)).nbytes


def all_but(model: FlatModel, name: str, part: Part, trained: Trained, sums: Mapping[str, Tensor | Term]) -> Upload:
    """The upload of clients that keep a part.

    Args:
        model: the network.
        name: of the part in their memory.
        part: that stays.
        trained: [G, P] where they are.
        sums: of FedAvg.average; the mean of what stays is reported on, it does not travel.
    """
    shared = model.take(trained.theta, model.others(part))
    sent = {"weight": sums["weight"], "loss": sums["loss"], "shared": shared}
    return Upload(dict(sums), trained.theta, memory={name: model.take(trained.theta, part)}, sent=sent)
