"""FedNova (Wang et al. 2020): average the clients' changes per unit of local progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedavg import FedAvg, Update
from local_training import Client, State, local_sgd
from parameters import Parameters, summed


@dataclass(frozen=True)
class FedNova(FedAvg):
    """theta <- theta_t - server_lr tau_eff sum_k p_k (theta_t - theta^k) / ||a_k||_1.

    tau_eff = sum_k p_k ||a_k||_1; with a proximal term it is the official code's sum_k p_k tau_k. Its p_k are those of
    the clients that trained alone.

    Attributes:
        mu: strength of a proximal term mu / 2 ||theta - theta_t||^2.
    """

    mu: float = 0.0

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """See FedAvg."""
        theta_t = server["theta"]
        trained = local_sgd(client, theta_t, pull=lambda theta: self.mu * (theta - theta_t))
        return Update(client, trained.theta, trained.loss)

    def server_update(self, server: State, updates: Sequence[Update], clients: int, t: int) -> State:
        """See FedAvg; a client that did not train has made no progress to divide by, and none to count."""
        theta_t = server["theta"]
        p = self.shares(updates)
        a = [self.progress(update.client) for update in updates]
        tau = [
            update.client.steps * update.client.lr_factor if self.mu > 0 else a_k
            for update, a_k in zip(updates, a, strict=True)
        ]
        of_trained = sum(p_k for p_k, a_k in zip(p, a, strict=True) if a_k > 0)
        tau_eff = sum(p_k * tau_k for p_k, tau_k in zip(p, tau, strict=True)) / (of_trained or 1)
        trained = [(p_k, update, a_k) for p_k, update, a_k in zip(p, updates, a, strict=True) if a_k > 0]
        nothing = theta_t.filled(0)
        direction = summed([nothing, *(p_k * (theta_t - update.theta) / a_k for p_k, update, a_k in trained)])
        return {"theta": theta_t - self.server_lr * tau_eff * direction}

    def progress(self, client: Client) -> float:
        """||a_k||_1, the sum of the weights that a client's gradients have in its change, in units of the run's lr."""
        a = momentum = 0.0
        for _ in range(client.steps):
            momentum = client.momentum * momentum + 1
            a = (1 - client.lr * self.mu) * a + momentum
        return a * client.lr_factor

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """What FedAvg's clients send, and a third number, ||a_k||_1."""
        return super().bytes_up(theta, width) + width
