"""FedFomo (Zhang et al. 2021): clients take from the others' models what does well on samples that they hold out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from fedavg import FedAvg, Logits, Update, When
from local_training import RUNNING, Client, Model, State, local_sgd
from parameters import Parameters, alone, summed
from torch import Tensor

EPSILON = torch.finfo(torch.float64).eps
"""Who went all the way to another's model stands beside it by about so much of its length, and has no distance."""


@dataclass(frozen=True)
class FedFomo(FedAvg):
    """Clients start from theta_k + sum_j w_j (theta_j - theta_k), theta_k the model their last training began with.

    w_j is max(0, (L_k(theta_k) - L_k(theta_j)) / ||theta_j - theta_k||), all of them divided by their sum. Without any
    above 0 a client goes on with what its last training made.

    Attributes:
        models: M, how many models a client looks at, its own last one among them; no more than there are clients.
        held_out: share of a client's samples on which L_k is measured, which never train.
        epsilon: probability in the first round that a client chooses models at random.
        decay: by how much it falls in a round.
        norm: l2 or l1.
        fallback: keep, or before: it goes on with the model that its last training began with.
    """

    models: int = 5
    held_out: float = 0.2
    epsilon: float = 0.3
    decay: float = 0.05
    norm: str = "l2"
    fallback: str = "keep"

    def server_start(self, theta: Parameters, clients: int) -> State:
        """All clients' models, which of them ever trained, and what each has gained by each."""
        return {
            "theta": theta,
            "models": alone(torch.stack([theta.flat()] * clients)),
            "known": alone(torch.zeros(clients)),
            "affinity": alone(torch.zeros(clients, clients, dtype=torch.float64)),
        }

    def client_start(self, theta: Parameters) -> State:
        """See FedAvg."""
        return {"before": theta}

    def had(self, model: Model, server: State, memory: State, k: int) -> Logits:
        """See FedAvg."""
        return partial(model.logits, server["theta"].shaped(server["models"][""][k]))

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """Judge models, mix them, and train on the samples that did not judge."""
        before, known = memory["before"].having(client.statistics), server["known"][""]
        models = [before.shaped(vector).having(client.statistics) for vector in server["models"][""]]
        held, rest = client.held_out(self.held_out)
        gains = torch.zeros(len(known), dtype=torch.float64)
        for j in self.chosen(client, known, server["affinity"][""][client.id], t):
            distance = self.length(models[j] - before) * float(known[j])
            if distance > 4 * EPSILON * self.length(models[j]):
                gains[j] = (judged(client, held, before) - judged(client, held, models[j])) / distance
        w = gains.clamp(min=0)
        start = models[client.id] if self.fallback == "keep" else before
        if w.any():
            w = w / w.sum()
            start = before + summed(float(w_j) * (theta_j - before) for w_j, theta_j in zip(w, models, strict=True))
        batches = client.orders(len(rest), 0, None)
        trainer = replace(client, x=client.x[rest], y=client.y[rest], batches=batches)
        trained = local_sgd(trainer, start)
        return Update(trainer, trained.theta, trained.loss, {"before": start}, {"gains": alone(gains)})

    def chosen(self, client: Client, known: Tensor, affinity: Tensor, t: int) -> list[int]:
        """The models that a client looks at: its own, and others at random or by what they gained it."""
        n = len(known)
        noise = client.draws(0, n + 1).tolist()
        explores = noise[0] < self.epsilon - self.decay * t
        score = noise[1:] if explores else affinity.tolist()
        others = [j for j in range(n) if j != client.id]
        best = sorted(others, key=lambda j: (-known[j], -score[j]))
        return [client.id, *best][: self.models]

    def length(self, gap: Parameters) -> float:
        """Of the way between two models; BatchNorm's running statistics are no part of it."""
        gap = gap.only([name for name in gap if not name.endswith(RUNNING)])
        return gap.absolute().total() if self.norm == "l1" else gap.squared().total() ** 0.5

    def server_update(self, server: State, updates: Sequence[Update], clients: int, t: int) -> State:
        """Keep the cohort's models; their mean is the generic model."""
        models, known, affinity = (server[name][""].clone() for name in ("models", "known", "affinity"))
        for update in updates:
            k = update.client.id
            models[k], known[k] = update.theta.flat(), 1
            affinity[k] += update.sent["gains"][""]
        theta = self.averaged(server["theta"], updates)
        return {"theta": theta, "models": alone(models), "known": alone(known), "affinity": alone(affinity)}

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """theta_0 before anybody has trained, then M - 1 models: the client has its own."""
        return (self.models - 1 if when.anybody else 1) * server["theta"].count() * width

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """The model, and what each of M gained."""
        return (theta.count() + self.models) * width


def judged(client: Client, held: Sequence[int], theta: Parameters) -> float:
    """L_k on samples that are held out; 0 without any."""
    held = list(held)
    return float(client.model.loss(theta, client.x[held], client.y[held]).detach()) if held else 0.0
