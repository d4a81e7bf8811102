"""FedRep: Collins et al., Exploiting Shared Representations for Personalized Federated Learning, ICML 2021.

arXiv 2102.07078, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from fl_ddp.bounds import Positive
from fl_ddp.clients.personal_part import all_but, bytes_beside, first_own
from fl_ddp.engine.group import Group
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Round, Tensors, Upload


@dataclass(frozen=True)
class FedRep(FedAvg):
    """FedAvg of the body; clients train their own head first, the body fixed, then the body, the head fixed.

    Attributes:
        head_epochs: passes of the head's training, of stragglers, too; the body has the run's local epochs.
    """

    head_epochs: Positive = 10.0

    neutral: ClassVar[Mapping[str, float] | None] = None
    keeps_optimizer: ClassVar[bool] = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model.require_head("FedRep")

    def init_client(self) -> Tensors:
        """The head that all begin with."""
        return first_own(self.model, "head", self.model.head)

    def sent_bytes(self, server: Tensors, in_round: Round) -> int:
        """The body."""
        return bytes_beside(self.model, self.model.head)

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Lines 7-13: the head, then the body."""
        start = self.model.put(server["theta"], self.model.head, memory["head"])
        plan = replace(group.plan, epochs=self.head_epochs, steps=None)
        first = group.train(start, self, {}, {}, plan=plan, fixed=self.model.body)
        trained = group.train(first.theta, self, {}, {}, draw=1, fixed=self.model.head)
        return all_but(self.model, "head", self.model.head, trained, self.average(group, server, trained))

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> Tensor:
        """The server's body and its own head."""
        return self.model.put(server["theta"], self.model.head, memory["head"])
