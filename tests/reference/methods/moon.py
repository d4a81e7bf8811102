"""MOON (Li et al. 2021) on the features before the last layer."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from fedavg import FedAvg, Update
from local_training import Client, State, local_sgd
from parameters import Parameters
from torch import Tensor


@dataclass(frozen=True)
class MOON(FedAvg):
    """Clients minimise L_k + mu l_con, which draws features to the received model's, away from their last own model's.

    Attributes:
        mu: weight of l_con.
        tau: its temperature.
    """

    mu: float = 1.0
    tau: float = 0.5

    def client_start(self, theta: Parameters) -> State:
        """No model of its own yet; `trained` says so."""
        return {"previous": theta, "trained": Parameters({"": torch.tensor(0.0)})}

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """See FedAvg."""
        model, theta_t = client.model, server["theta"].having(client.statistics)
        previous = memory["previous"] if float(memory["trained"][""]) else theta_t

        def objective(theta: Parameters, x: Tensor, y: Tensor) -> Tensor:
            z_glob, z_prev = model.run(theta_t, x)[0].detach(), model.run(previous, x)[0].detach()
            z, logits = model.run(theta, x)
            near = torch.stack([cosine(*pair) for pair in zip(z, z_glob, strict=True)]) / self.tau
            far = torch.stack([cosine(*pair) for pair in zip(z, z_prev, strict=True)]) / self.tau
            l_con = -(near.exp() / (near.exp() + far.exp())).log()
            return model.criterion(logits, y) + self.mu * l_con.mean()

        trained = local_sgd(client, theta_t, objective=objective)
        kept = {"previous": trained.theta, "trained": Parameters({"": torch.tensor(1.0)})}
        return Update(client, trained.theta, trained.loss, kept)


def cosine(a: Tensor, b: Tensor) -> Tensor:
    """Of the angle between two vectors."""
    return (a @ b) / (a @ a).sqrt() / (b @ b).sqrt()
