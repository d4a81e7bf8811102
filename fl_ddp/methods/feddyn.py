"""FedDyn: Acar et al., Federated Learning Based on Dynamic Regularization, ICLR 2021 (arXiv 2111.04263), Algorithm 1.

The official code scales alpha by the clients' sizes, clips gradients and reports the mean of all clients' last models;
here alpha is one number, nothing is clipped and the server's model is reported, as in the paper. Any optimizer may make
the local steps: g_k follows the model they end with, and the paper solves the local problem by none in particular.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fl_ddp.bounds import Positive
from fl_ddp.engine.group import Group
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Info, Tensors, Term, Total, Upload


@dataclass(frozen=True)
class FedDyn(FedAvg):
    """FedAvg whose clients' objectives are bent until their optima agree with the server's; the mean is uniform.

    Attributes:
        weights: uniform, as the paper's.
        alpha: strength of the dynamic regulariser, above 0.
    """

    weights: Literal["data", "uniform"] = "uniform"
    alpha: Positive = 0.1

    neutral: ClassVar[Mapping[str, float] | None] = None
    coefficients: ClassVar[tuple[str, ...]] = ("alpha",)

    def init(self) -> Tensors:
        """The model and h = mean over all clients of g_k, zero; float64, as h / alpha magnifies its rounding."""
        theta = self.model.init()
        return {"theta": theta, "h": torch.zeros_like(theta, dtype=torch.float64)}

    def init_client(self) -> Tensors:
        """The client's gradient estimate g_k, zero."""
        return {"g": torch.zeros_like(self.model.init())}

    def penalty(self, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """Eq. 1: -<g_k, theta> + alpha / 2 ||theta - theta_t||^2."""
        return self.alpha / 2 * (theta - server["theta"]).square().sum() - (mine["g"] * theta).sum()

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Local training, then g_k <- g_k - alpha (theta^k - theta_t)."""
        trained = group.train(server["theta"], self, server, memory)
        g = memory["g"] - self.alpha * (trained.theta - server["theta"])
        sent = self.average(group, server, trained)  # the change of g_k follows from that of theta^k
        return Upload(sent | {"g": Term(g, minus=memory["g"])}, trained.theta, {"g": g}, sent)

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """Algorithm 1: h <- h - alpha / N sum (theta^k - theta_t); theta <- mean theta^k - h / alpha."""
        theta = server["theta"]
        h = server["h"] + total.sums["g"] / info.num_clients
        return {"theta": (theta + self.server_lr * self.mean_delta(total) - h / self.alpha).to(theta.dtype), "h": h}
