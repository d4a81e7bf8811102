"""Ditto: Li, Hu, Beirami, Smith, Ditto: Fair and Robust Federated Learning Through Personalization, ICML 2021.

arXiv 2012.04221, Algorithm 1, with local SGD as the solver of both problems.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fl_ddp.bounds import NonNegative
from fl_ddp.engine.group import Group
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Quadratic, Tensors, Upload


@dataclass(frozen=True)
class Ditto(FedAvg):
    """FedAvg, beside which every client trains a model of its own that is held near the received one.

    Attributes:
        lam: strength of the pull, lam / 2 ||v - theta_t||^2.
    """

    lam: NonNegative = 1.0

    neutral: ClassVar[Mapping[str, float] | None] = {}
    keeps_optimizer: ClassVar[bool] = False

    def init_client(self) -> Tensors:
        """The client's own model v."""
        return {"v": self.model.init()}

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """The global model as in FedAvg, then the client's own, held near the model received."""
        trained = group.train(server["theta"], self, server, {})
        own = group.train(memory["v"], _Held(self.model, lam=self.lam), server, {}, draw=1)
        return Upload(self.average(group, server, trained), own.theta, memory={"v": own.theta})

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> Tensor:
        """The model v."""
        return memory["v"]


@dataclass(frozen=True)
class _Held(FedAvg):
    """The objective of a client's own model."""

    lam: NonNegative = 1.0

    coefficients: ClassVar[tuple[str, ...]] = ("lam",)

    def priors(self, server: Tensors, mine: Tensors) -> tuple[Quadratic, ...]:
        """The pull lam / 2 ||v - theta_t||^2."""
        return (Quadratic(self.lam * server["theta"].new_ones(()), server["theta"]),)
