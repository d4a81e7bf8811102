"""FedProx (Li et al. 2020): clients are held near the received model."""

from __future__ import annotations

from dataclasses import dataclass

from fedavg import FedAvg, Update
from local_training import Client, State, local_sgd


@dataclass(frozen=True)
class FedProx(FedAvg):
    """Clients minimise L_k(theta) + mu / 2 ||theta - theta_t||^2.

    Attributes:
        mu: strength of the pull.
    """

    mu: float = 0.01

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """See FedAvg."""
        theta_t = server["theta"]
        trained = local_sgd(client, theta_t, pull=lambda theta: self.mu * (theta - theta_t))
        return Update(client, trained.theta, trained.loss)
