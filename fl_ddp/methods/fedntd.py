"""FedNTD: Lee et al., Preservation of the Global Knowledge by Not-True Distillation in Federated Learning.

NeurIPS 2022, arXiv 2106.03097, Eq. 4-6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fl_ddp.bounds import NonNegative, Positive
from fl_ddp.engine.group import Group
from fl_ddp.losses.criterion import mean_over
from fl_ddp.losses.cross_entropy import among, one_hot
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Batch, Leaves, Tensors, Upload


@dataclass(frozen=True)
class FedNTD(FedAvg):
    """FedAvg whose clients keep what the received model thinks of the classes that a sample is not of.

    Attributes:
        beta: weight of the distillation.
        tau: its temperature.
    """

    beta: NonNegative = 1.0
    tau: Positive = 1.0

    neutral: ClassVar[Mapping[str, float] | None] = {"beta": 0.0}
    coefficients: ClassVar[tuple[str, ...]] = ("beta", "tau")

    needs_classes = True  # see FedAvg

    def loss(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> Tensor:
        """Eq. 4: cross-entropy + beta tau^2 KL(received || local) over the not-true classes."""
        logits = among(self.model.logits(theta, batch.x, batch.key, batch.mask), batch.allowed)
        received = among(self.model.logits(mine.get("received", server["theta"]), batch.x), batch.allowed)
        true = one_hot(batch.y, self.model.num_classes)
        p, q = self._not_true(received, true), self._not_true(logits, true)
        divergence = (p.exp() * (p - q)).sum(-1)
        return mean_over(batch.mask, self.model.losses(logits, batch.y) + self.beta * self.tau**2 * divergence)

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Local training beside the received model."""
        received = self.received(group, server["theta"])
        trained = group.train(server["theta"], self, server, {"received": received} if received.ndim > 1 else {})
        return Upload(self.average(group, server, trained), trained.theta)

    def _not_true(self, logits: Tensor, true: Tensor) -> Tensor:
        """Eq. 5: log-probabilities [B, C] at the temperature, without the true class."""
        return among(logits / self.tau, ~true).log_softmax(-1)
