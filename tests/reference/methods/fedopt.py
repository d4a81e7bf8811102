"""FedOpt (Reddi et al. 2021): an adaptive optimizer on the server."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from fedavg import FedAvg, Update
from local_training import State
from parameters import Parameters, summed


@dataclass(frozen=True)
class FedOpt(FedAvg):
    """m, v follow Delta = sum_k p_k theta^k - theta_t and its square; theta <- theta_t + server_lr m / (sqrt(v) + tau).

    Attributes:
        server_lr: of the server's optimizer.
        rule: how v follows the square: adam, yogi or adagrad.
        beta1: weight of the past in m.
        beta2: weight of the past in v.
        tau: how little adaptive the steps are.
    """

    server_lr: float = 0.01
    rule: str = "adam"
    beta1: float = 0.9
    beta2: float = 0.99
    tau: float = 1e-3

    def server_start(self, theta: Parameters, clients: int) -> State:
        """See FedAvg."""
        return {"theta": theta, "m": theta.filled(0), "v": theta.filled(self.tau * self.tau)}

    def server_update(self, server: State, updates: Sequence[Update], clients: int, t: int) -> State:
        """See FedAvg."""
        theta_t, v = server["theta"], server["v"]
        delta = summed(p_k * update.theta for p_k, update in zip(self.shares(updates), updates, strict=True)) - theta_t
        m = self.beta1 * server["m"] + (1 - self.beta1) * delta
        if self.rule == "adagrad":
            v = v + delta.squared()
        elif self.rule == "yogi":
            v = v - (1 - self.beta2) * (delta.squared() * (v - delta.squared()).each(torch.sign))
        else:
            v = self.beta2 * v + (1 - self.beta2) * delta.squared()
        return {"theta": theta_t + self.server_lr * (m / (v.each(torch.sqrt) + self.tau)), "m": m, "v": v}
