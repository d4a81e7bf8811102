"""FedDyn (Acar et al. 2021): the clients' objectives are bent until their optima agree with the server's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedavg import FedAvg, Update
from local_training import Client, State, local_sgd
from parameters import Parameters, summed


@dataclass(frozen=True)
class FedDyn(FedAvg):
    """Clients minimise L_k(theta) - <g_k, theta> + alpha / 2 ||theta - theta_t||^2.

    Attributes:
        alpha: strength of the dynamic regulariser.
    """

    weights: str = "uniform"
    alpha: float = 0.1

    def server_start(self, theta: Parameters, clients: int) -> State:
        """See FedAvg."""
        return {"theta": theta, "h": theta.filled(0)}

    def client_start(self, theta: Parameters) -> State:
        """See FedAvg."""
        return {"g": theta.filled(0)}

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """g_k <- g_k - alpha (theta^k - theta_t)."""
        theta_t, g_k = server["theta"], memory["g"]
        trained = local_sgd(client, theta_t, pull=lambda theta: self.alpha * (theta - theta_t) - g_k)
        g_new = g_k - self.alpha * (trained.theta - theta_t)
        return Update(client, trained.theta, trained.loss, {"g": g_new})

    def server_update(self, server: State, updates: Sequence[Update], clients: int, t: int) -> State:
        """h <- h - alpha / N sum_S (theta^k - theta_t); theta <- mean_S theta^k - h / alpha."""
        theta_t = server["theta"]
        h = server["h"] - self.alpha / clients * summed(update.theta - theta_t for update in updates)
        return {"theta": self.averaged(theta_t, updates) - h / self.alpha, "h": h}
