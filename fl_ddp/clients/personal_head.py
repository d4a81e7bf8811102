"""What clients hand over whose head stays with them."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Tensors, Term, Trained, Upload


def first_head(model: FlatModel) -> Tensors:
    """A client's memory before it first takes part: the head that all begin with."""
    return {"head": model.take(model.init(), model.head)}


def body_bytes(model: FlatModel) -> int:
    """Bytes of the body."""
    return model.take(model.init(), model.body).nbytes


def body_leaves(model: FlatModel, trained: Trained, sums: Mapping[str, Tensor | Term]) -> Upload:
    """The upload of clients whose body leaves and whose head stays.

    Args:
        model: the network.
        trained: [G, P] where they are.
        sums: of FedAvg.average; the heads' mean is reported on, it does not travel.
    """
    head, body = model.take(trained.theta, model.head), model.take(trained.theta, model.body)
    sent = {"weight": sums["weight"], "loss": sums["loss"], "body": body}
    return Upload(dict(sums), trained.theta, memory={"head": head}, sent=sent)
