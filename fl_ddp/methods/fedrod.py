"""FedRoD: Chen and Chao, On Bridging Generic and Personalized Federated Learning for Image Classification, ICLR 2022.

arXiv 2107.00778, Algorithm 1 with the linear personal head. It is trained along with the body and the generic head,
which its gradient does not reach, and begins at zero: a client's own model begins as the generic one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from fl_ddp.bounds import NonNegative
from fl_ddp.clients.own_samples import class_counts
from fl_ddp.engine.group import Group
from fl_ddp.losses.criterion import mean_over
from fl_ddp.losses.cross_entropy import among
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Batch, Leaves, Tensors, Upload


@dataclass(frozen=True)
class FedRoD(FedAvg):
    """A generic model trained on balanced softmax, and on its features a personal head that stays with the client.

    Attributes:
        gamma: exponent of the class counts in the balanced softmax; 0 is plain cross-entropy.
    """

    gamma: NonNegative = 1.0

    neutral: ClassVar[Mapping[str, float] | None] = {"gamma": 0.0}
    keeps_optimizer: ClassVar[bool] = False
    leaves_beside: ClassVar[int] = 2  # the personal head's weight and bias, so that they leave the generic model alone

    needs_classes = True  # see FedAvg

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model.require_features("FedRoD")

    def init_client(self) -> Tensors:
        """A personal head phi, weight [C, D] and bias [C], that adds nothing."""
        model = self.model
        return {"phi": model.init().new_zeros(model.num_classes * (model.num_features + 1))}

    def leaves(self, vector: Tensor) -> Leaves:
        """Of theta | phi; phi's are a weight [C, D] and a bias [C]."""
        theta, phi = vector.tensor_split([self.model.num_params], -1)
        weight, bias = phi.tensor_split([phi.shape[-1] - self.model.num_classes], -1)
        return *self.model.leaves(theta), weight.view(*bias.shape, -1), bias

    def loss(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> Tensor:
        """Balanced softmax of the generic logits (Eq. 5), cross-entropy of the personal ones (Eq. 7)."""
        z, logits = self.model.run(theta[:-2], batch)
        own = logits.detach() + F.linear(z.detach(), *theta[-2:])
        generic = self.model.losses(self._balanced(logits, mine["log_counts"]), batch.y)
        return mean_over(batch.mask, generic + self.model.losses(own, batch.y))

    def _balanced(self, logits: Tensor, log_counts: Tensor) -> Tensor:
        """Eq. 5; classes that the client lacks have no probability, nor a share of smoothed labels."""
        return among(logits + self.gamma * log_counts, log_counts > -torch.inf) if self.gamma else logits

    def predict(self, theta: Tensor, x: Tensor) -> Tensor:
        """The personal logits."""
        *generic, weight, bias = self.leaves(theta)
        z, logits = self.model.apply(tuple(generic), x)
        assert z is not None
        return logits + F.linear(z, weight, bias)

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> Tensor:
        """The received theta, and its own phi."""
        return torch.cat([server["theta"], memory["phi"]])

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Train theta and phi side by side; theta leaves, phi stays."""
        log_counts = class_counts(group, self.model.num_classes).log()
        start = torch.cat([server["theta"].expand(group.lanes, -1), memory["phi"]], 1)
        trained = group.train(start, self, {}, {"log_counts": log_counts})
        theta, phi = trained.theta.tensor_split([self.model.num_params], 1)
        sums = self.average(group, server, trained._replace(theta=theta))
        return Upload(sums, trained.theta, memory={"phi": phi})
