"""FedPer: Arivazhagan et al., Federated Learning with Personalization Layers, 2019 (arXiv 1912.00818).

Algorithms 1 and 2, with the classifier on top of the features as the personal layers.
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
class FedPer(FedAvg):
    """FedAvg of the body; the head stays with its client. The heads' mean is reported on, it does not travel."""

    neutral: ClassVar[Mapping[str, float] | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model.require_head("FedPer")

    def init_client(self) -> Tensors:
        """The head that all begin with."""
        return first_own(self.model, "head", self.model.head)

    def sent_bytes(self, server: Tensors, in_round: Round) -> int:
        """The body."""
        return bytes_beside(self.model, self.model.head)

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Train the received body with the client's own head."""
        start = self.model.put(server["theta"], self.model.head, memory["head"])
        trained = group.train(start, self, server, {})
        return all_but(self.model, "head", self.model.head, trained, self.average(group, server, trained))

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> Tensor:
        """The server's body and its own head."""
        return self.model.put(server["theta"], self.model.head, memory["head"])
