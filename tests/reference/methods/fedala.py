"""FedALA (Zhang et al. 2023): clients learn how much of the received model to take, coordinate by coordinate."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from fedavg import FedAvg, Logits, Update
from local_training import RUNNING, Client, Model, State, local_sgd
from parameters import InTraining, Parameters, alone


@dataclass(frozen=True)
class FedALA(FedAvg):
    """Clients start from theta_k + (theta_t - theta_k) w_k in the last layers, from theta_t in those before.

    Attributes:
        eta: learning rate of w_k.
        share: epochs of a pass that learns w_k.
        layers: number of tensors at the model's end that are mixed.
        threshold: the first learning ends when the last losses' standard deviation is below it.
        losses: how many losses these are.
        passes: most passes of the first learning.
    """

    eta: float = 1.0
    share: float = 0.8
    layers: int = 2
    threshold: float = 0.1
    losses: int = 10
    passes: int = 50

    def client_start(self, theta: Parameters) -> State:
        """Its own model, w_k and the number of rounds that it took part in."""
        w = theta.only(self.mixed_names(theta)).filled(1)
        return {"theta": theta, "w": alone(w.flat()), "times": alone(torch.tensor(0.0))}

    def had(self, model: Model, server: State, memory: State, k: int) -> Logits:
        """See FedAvg."""
        w = server["theta"].only(self.mixed_names(server["theta"])).shaped(memory["w"][""])
        return partial(model.logits, mixed(server["theta"], memory["theta"], w))

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """Learn w_k, then train."""
        theta_t, own, times = server["theta"], memory["theta"], float(memory["times"][""])
        w = theta_t.only(self.mixed_names(theta_t)).shaped(memory["w"][""])
        losses: list[float] = []
        while times > 0 and not self.learned(losses, first=times == 1):
            w, loss = self.learn(client, theta_t, own, w)
            losses.append(loss)
        trained = local_sgd(client, mixed(theta_t, own, w))
        kept = {"theta": trained.theta, "w": alone(w.flat()), "times": alone(torch.tensor(times + 1))}
        return Update(client, trained.theta, trained.loss, kept)

    def mixed_names(self, theta: Parameters) -> list[str]:
        """The last tensors of the model."""
        return [name for name in theta if not name.endswith(RUNNING)][-self.layers :]

    def learned(self, losses: list[float], first: bool) -> bool:
        """Whether passes with these mean losses are enough: one, but more where w_k is learned for the first time."""
        if not first:
            return len(losses) == 1
        steady = len(losses) > self.losses and float(np.std(losses[-self.losses :])) < self.threshold
        return steady or len(losses) == self.passes

    def learn(self, client: Client, theta_t: Parameters, own: Parameters, w: Parameters) -> tuple[Parameters, float]:
        """w_k after a pass, each step w_k <- clip(w_k - eta g (theta_t - theta_k), 0, 1), and the pass's mean loss."""
        losses = []
        for batch in client.orders(client.n, 1, self.share, short=True):
            loss = client.model.loss(InTraining(mixed(theta_t, own, w)), client.x[batch], client.y[batch])
            g = client.model.gradient(loss).only(w)
            change = (theta_t - own).only(w)
            w = (w - self.eta * g * change).each(lambda entry: entry.clamp(0, 1))
            losses.append(float(loss.detach()))
        return w, sum(losses) / max(len(losses), 1)


def mixed(received: Parameters, own: Parameters, w: Parameters) -> Parameters:
    """The received model, with as much of a client's own as w leaves it."""
    return received.having((received - own).only(w) * (w - 1) + received.only(w))
