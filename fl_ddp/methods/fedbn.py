"""FedBN: Li et al., FedBN: Federated Learning on Non-IID Features via Local Batch Normalization, ICLR 2021.

arXiv 2102.07623, Algorithm 1: weights, biases and running statistics of BatchNorm are the client's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fl_ddp.clients.personal_part import all_but, bytes_beside, first_own
from fl_ddp.engine.group import Group
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Round, Tensors, Upload


@dataclass(frozen=True)
class FedBN(FedAvg):
    """FedAvg of all but BatchNorm, which stays with its client. Its mean is reported on, it does not travel."""

    neutral: ClassVar[Mapping[str, float] | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model.require_norms("FedBN")

    def init_client(self) -> Tensors:
        """The layers that all begin with."""
        return first_own(self.model, "norms", self.model.norms)

    def sent_bytes(self, server: Tensors, in_round: Round) -> int:
        """All but these layers."""
        return bytes_beside(self.model, self.model.norms)

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Train the received model with the client's own layers."""
        start = self.model.put(server["theta"], self.model.norms, memory["norms"])
        trained = group.train(start, self, server, {})
        return all_but(self.model, "norms", self.model.norms, trained, self.average(group, server, trained))

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> Tensor:
        """The server's, with its own BatchNorm."""
        return self.model.put(server["theta"], self.model.norms, memory["norms"])
