"""Every client trains a model of its own and sends nothing, the baseline of personalised federated learning.

As in Smith et al., Federated Multi-Task Learning, NeurIPS 2017 (arXiv 1705.10467), where it is "local".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fl_ddp.engine.group import Group
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Round, Tensors, Upload


@dataclass(frozen=True)
class LocalOnly(FedAvg):
    """No federation: a client goes on from its own model. The mean of the models is reported, it does not travel."""

    neutral: ClassVar[Mapping[str, float] | None] = None

    def init_client(self) -> Tensors:
        """The model that all begin with."""
        return {"theta": self.model.init()}

    def sent_bytes(self, server: Tensors, in_round: Round) -> int:
        """Nothing."""
        return 0

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Train from where the client was."""
        trained = group.train(memory["theta"], self, server, {})
        return Upload(self.average(group, server, trained), trained.theta, memory={"theta": trained.theta}, sent={})

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> Tensor:
        """Where it is."""
        return memory["theta"]
