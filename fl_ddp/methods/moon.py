"""MOON: Li, He, Song, Model-Contrastive Federated Learning, CVPR 2021 (arXiv 2103.16257).

Algorithm 1 and Eq. 3, on the penultimate features, without a projection head of its own. A client that never trained
has the received model for its previous one; the official code takes an untrained one there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from fl_ddp.bounds import NonNegative, Positive
from fl_ddp.engine.group import Group
from fl_ddp.losses.criterion import mean_over
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Batch, Leaves, Tensors, Upload


@dataclass(frozen=True)
class MOON(FedAvg):
    """FedAvg whose clients' features are drawn to the received model's and away from their own previous model's.

    Attributes:
        mu: weight of the contrastive loss.
        tau: its temperature.
    """

    mu: NonNegative = 1.0
    tau: Positive = 0.5

    neutral: ClassVar[Mapping[str, float] | None] = {"mu": 0.0}
    coefficients: ClassVar[tuple[str, ...]] = ("mu", "tau")

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model.require_features("MOON")

    def init_client(self) -> Tensors:
        """No previous model yet."""
        return {"previous": self.model.init(), "trained": torch.zeros(())}

    def loss(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> Tensor:
        """Eq. 3: cross-entropy - mu log(e^{cos(z, z_glob)/tau} / (e^{cos(z, z_glob)/tau} + e^{cos(z, z_prev)/tau}))."""
        z, logits = self.model.run(theta, batch)
        near, far = (
            self.model.features(other, batch.x) for other in (mine.get("received", server["theta"]), mine["previous"])
        )
        gap = F.cosine_similarity(z, far) - F.cosine_similarity(z, near)
        return mean_over(batch.mask, self.model.losses(logits, batch.y) + self.mu * F.softplus(gap / self.tau))

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Local training; the model that it ends at is the next round's previous one."""
        received = self.received(group, server["theta"])
        previous = torch.where(memory["trained"][:, None] > 0, memory["previous"], received)
        mine = {"previous": previous} | ({"received": received} if received.ndim > 1 else {})
        trained = group.train(server["theta"], self, server, mine)
        kept = {"previous": trained.theta, "trained": torch.ones_like(memory["trained"])}
        return Upload(self.average(group, server, trained), trained.theta, memory=kept)
