"""FedAvgM (Hsu et al. 2019): momentum on the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedavg import FedAvg, Update
from local_training import State
from parameters import Parameters, summed


@dataclass(frozen=True)
class FedAvgM(FedAvg):
    """v <- beta v + (1 - dampening) d with d = theta_t - sum_k p_k theta^k; theta <- theta_t - server_lr v.

    Attributes:
        beta: server momentum.
        dampening: 0 is the paper's heavy ball.
        nesterov: whether the step is along d + beta v.
    """

    beta: float = 0.9
    dampening: float = 0.0
    nesterov: bool = False

    def server_start(self, theta: Parameters, clients: int) -> State:
        """See FedAvg."""
        return {"theta": theta, "v": theta.filled(0)}

    def server_update(self, server: State, updates: Sequence[Update], clients: int, t: int) -> State:
        """See FedAvg."""
        theta_t = server["theta"]
        d = theta_t - summed(p_k * update.theta for p_k, update in zip(self.shares(updates), updates, strict=True))
        v = self.beta * server["v"] + (1 - self.dampening) * d
        step = d + self.beta * v if self.nesterov else v
        return {"theta": theta_t - self.server_lr * step, "v": v}
