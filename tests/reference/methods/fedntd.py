"""FedNTD (Lee et al. 2022): clients keep the received model's opinion of the classes a sample is not of."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from fedavg import FedAvg, Update
from local_training import Client, State, local_sgd
from parameters import Parameters
from torch import Tensor


@dataclass(frozen=True)
class FedNTD(FedAvg):
    """Clients minimise L_k(theta) + beta tau^2 KL(q_g || q), q(c) = exp(z_c / tau) / sum over c' that is not y.

    Attributes:
        beta: weight of the distillation.
        tau: its temperature.
    """

    beta: float = 1.0
    tau: float = 1.0

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """See FedAvg."""
        model, theta_t = client.model, server["theta"].having(client.statistics)

        def objective(theta: Parameters, x: Tensor, y: Tensor) -> Tensor:
            received = model.logits(theta_t, x).detach()
            logits = model.logits(theta, x)
            divergences = [self.divergence(received[i], logits[i], int(y[i])) for i in range(len(y))]
            return model.criterion(logits, y) + self.beta * self.tau**2 * torch.stack(divergences).mean()

        trained = local_sgd(client, theta_t, objective=objective)
        return Update(client, trained.theta, trained.loss)

    def divergence(self, received: Tensor, own: Tensor, label: int) -> Tensor:
        """KL of one sample's logits [C], its label's deleted."""
        others = [c for c in range(len(own)) if c != label]
        q_g, q = torch.softmax(received[others] / self.tau, 0), torch.softmax(own[others] / self.tau, 0)
        return (q_g * (q_g / q).log()).sum()
