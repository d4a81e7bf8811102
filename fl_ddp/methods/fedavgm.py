"""FedAvgM: Hsu, Qi, Brown, Measuring the Effects of Non-Identical Data Distribution, 2019 (arXiv 1909.06335)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch

from fl_ddp.bounds import BelowOne, UnitInterval
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Info, Tensors, Total


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """FedAvg with momentum on the server: v <- beta v + (1 - dampening) d; theta <- theta - server_lr v.

    Attributes:
        beta: server momentum.
        dampening: 0 is the paper's heavy ball; beta makes v a running mean of the change d = theta_t - mean theta^k.
        nesterov: step along d + beta v.
    """

    beta: BelowOne = 0.9
    dampening: UnitInterval = 0.0
    nesterov: bool = False

    neutral: ClassVar[Mapping[str, float] | None] = {"beta": 0.0}

    def init(self) -> Tensors:
        """The model and a zero velocity, float64 so that the model is rounded once a round."""
        theta = self.model.init()
        return {"theta": theta, "v": torch.zeros_like(theta, dtype=torch.float64)}

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """Section 4.3: momentum on the mean change."""
        theta, d = server["theta"], -self.mean_delta(total)
        v = self.beta * server["v"] + (1 - self.dampening) * d
        step = d + self.beta * v if self.nesterov else v
        return {"theta": (theta - self.server_lr * step).to(theta.dtype), "v": v}
