"""SCAFFOLD (Karimireddy et al. 2020) with option II for the clients' control variates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedavg import FedAvg, Update, When
from local_training import Client, State, local_sgd
from parameters import Parameters, summed


@dataclass(frozen=True)
class Scaffold(FedAvg):
    """Clients step along g_k(y) - c_k + c; c is the mean of the c_k of all clients."""

    weights: str = "uniform"

    def server_start(self, theta: Parameters, clients: int) -> State:
        """See FedAvg."""
        return {"theta": theta, "c": theta.filled(0)}

    def client_start(self, theta: Parameters) -> State:
        """See FedAvg."""
        return {"c": theta.filled(0)}

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """c_k+ = c_k - c + (x - y) / (K eta), K the steps, or with momentum the sum of the gradients' weights."""
        x, c, c_k = server["theta"], server["c"], memory["c"]
        trained = local_sgd(client, x, pull=lambda y: c - c_k)
        y, k, momentum = trained.theta, 0.0, 0.0
        for _ in range(client.steps):
            momentum = client.momentum * momentum + 1
            k += momentum
        c_new = c_k - c + (x - y) / (k * client.lr) if client.steps else c_k
        return Update(client, y, trained.loss, {"c": c_new}, {"dc": c_new - c_k})

    def server_update(self, server: State, updates: Sequence[Update], clients: int, t: int) -> State:
        """x <- x + eta_g mean_S dy; c <- c + |S| / N mean_S dc."""
        c = server["c"] + summed(update.sent["dc"] for update in updates) / clients
        return {"theta": self.averaged(server["theta"], updates), "c": c}

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """The model and c, 2 P."""
        return 2 * server["theta"].count() * width

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """The changes of the model and of c_k, 2 P, and two numbers."""
        return (2 * theta.count() + 2) * width
