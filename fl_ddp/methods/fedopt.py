"""FedOpt: Reddi et al., Adaptive Federated Optimization, ICLR 2021 (arXiv 2003.00295), Algorithm 2.

The server's optimizer takes the clients' mean change for a gradient. As in the algorithm its means are not corrected
for their start, and v begins at tau^2. The paper tunes all rates; server_lr is what it finds best most often.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fl_ddp.bounds import BelowOne, Positive
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Info, Tensors, Total


@dataclass(frozen=True)
class FedOpt(FedAvg):
    """FedAdam, FedYogi or FedAdagrad: theta <- theta + server_lr m / (sqrt(v) + tau), m a running mean of the change.

    Attributes:
        server_lr: of the server's optimizer.
        rule: how v follows the squared change: adam, yogi or adagrad.
        beta1: weight of the past in m; the paper's FedAdagrad has 0.
        beta2: weight of the past in v, of adam and yogi.
        tau: how little adaptive the steps are.
    """

    server_lr: Positive = 0.01
    rule: Literal["adam", "yogi", "adagrad"] = "adam"
    beta1: BelowOne = 0.9
    beta2: BelowOne = 0.99
    tau: Positive = 1e-3

    neutral: ClassVar[Mapping[str, float] | None] = None

    def init(self) -> Tensors:
        """The model, m = 0 and v = tau^2, float64 so that the model is rounded once a round."""
        theta = self.model.init()
        zero = torch.zeros_like(theta, dtype=torch.float64)
        return {"theta": theta, "m": zero, "v": torch.full_like(zero, self.tau**2)}

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """Algorithm 2, lines 11 to 15."""
        theta, change = server["theta"], self.mean_delta(total)
        m, v = self.beta1 * server["m"] + (1 - self.beta1) * change, self.second(server["v"], change.square())
        return {"theta": (theta + self.server_lr * m / (v.sqrt() + self.tau)).to(theta.dtype), "m": m, "v": v}

    def second(self, v: Tensor, square: Tensor) -> Tensor:
        """Lines 12 to 14."""
        if self.rule == "adagrad":
            return v + square
        if self.rule == "yogi":
            return v - (1 - self.beta2) * square * (v - square).sign()
        return self.beta2 * v + (1 - self.beta2) * square
