"""Ditto (Li et al. 2021): beside the generic model, each client trains one of its own that stays near the generic."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from fedavg import FedAvg, Logits, Update
from local_training import Client, Model, State, local_sgd
from parameters import Parameters


@dataclass(frozen=True)
class Ditto(FedAvg):
    """FedAvg, and v_k <- argmin L_k(v) + lam / 2 ||v - theta_t||^2.

    Attributes:
        lam: how near the clients' own models stay.
    """

    lam: float = 1.0

    def client_start(self, theta: Parameters) -> State:
        """See FedAvg."""
        return {"v": theta}

    def had(self, model: Model, server: State, memory: State, k: int) -> Logits:
        """See FedAvg."""
        return partial(model.logits, memory["v"])

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """Train the generic model, then v_k, on batches of their own."""
        theta_t = server["theta"]
        trained = local_sgd(client, theta_t)
        again = client.orders(client.n, 1, None)
        v = local_sgd(client, memory["v"], pull=lambda v: self.lam * (v - theta_t), batches=again, goes_on=True).theta
        return Update(client, trained.theta, trained.loss, {"v": v}, predict=partial(client.model.logits, v))
