"""Fisher-weighted averaging with EWC or RWalk (Kim et al. 2020, "importance from agent")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from fedavg import FedAvg, Update, When
from importance import FisherOptions, fisher
from local_training import Client, State, local_sgd
from parameters import Parameters, summed
from path_integral import rwalk
from torch import Tensor


@dataclass(frozen=True)
class FisherAvg(FedAvg):
    """theta <- sum_k g^k theta^k / sum_k g^k (Eq. 2), g^k the clients' Fisher information, normalised by tensor.

    With weights data, g^k is n_k times that.

    Clients minimise L_k(theta) + lam / 2 sum_j F_j (theta_j - theta_t,j)^2 (Eq. 3); the first round knows no F.

    Attributes:
        lam: strength of the penalty.
        gamma: weight of the old global F in a client's new one, Eq. 4.
        weighted: whether F weighs in the average, or it is the plain mean.
        layer_norm: norm by which each tensor of a client's F is divided before it weighs.
        agg_fisher: whether the F that weighs is Eq. 4's (ema) or the fresh one.
        fisher_update: ema, Eq. 4, or sum, old + fresh.
        importance: fisher, or rwalk: Fisher and path score.
        scale: of the two in the penalty: largest, each divided by its largest entry, or none.
        kind: see importance.FisherOptions.
        reduction: likewise.
        fisher_batch: likewise.
        fisher_samples: likewise.
        fisher_draws: likewise.
        penalty_step: proximal, or explicit, along the penalty's gradient.
        compat_eps: above 0, the official code's sum(g theta) / (sum(g) + eps).
        interval: see path_integral.rwalk().
        alpha: likewise.
        eps: likewise.
    """

    weights: str = "uniform"
    lam: float = 1e5
    gamma: float = 0.9
    weighted: bool = True
    layer_norm: str = "l2"
    agg_fisher: str = "ema"
    fisher_update: str = "ema"
    importance: str = "fisher"
    scale: str = "largest"
    kind: str = "empirical"
    reduction: str = "per_sample_mean"
    fisher_batch: int = 100
    fisher_samples: int = 0
    fisher_draws: int = 1
    penalty_step: str = "proximal"
    compat_eps: float = 0.0
    interval: int = 10
    alpha: float = 0.9
    eps: float = 1e-3

    def server_start(self, theta: Parameters, clients: int) -> State:
        """See FedAvg."""
        return {"theta": theta, "fisher": theta.filled(0), "score": theta.filled(0)}

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """Train near the received model, then measure Fisher information at the trained one."""
        theta_t, held = server["theta"], self.curvature(server, t)
        if self.penalty_step == "explicit":
            trained = local_sgd(client, theta_t, pull=lambda theta: held * (theta - theta_t))
        else:
            trained = local_sgd(client, theta_t, solve=lambda x, far: (x + far * held * theta_t) / (1 + far * held))
        options = FisherOptions(self.kind, self.reduction, self.fisher_batch, self.fisher_samples, self.fisher_draws)
        fresh = fisher(client, trained.theta, options)
        sent = {"fresh": fresh, "fisher": self.mixed(server["fisher"], fresh, t)}
        if self.importance == "rwalk":
            score = rwalk(trained.path, theta_t, self.interval, self.alpha, self.eps)
            sent["score"] = score if t == 0 else 0.5 * (server["score"] + score)
        return Update(client, trained.theta, trained.loss, sent=sent)

    def curvature(self, server: State, t: int) -> Parameters:
        """What the penalty weighs each coordinate by: lam F, or lam (F / max F + S / max S), or lam (F + S)."""
        f, s = server["fisher"], server["score"]
        if t == 0:
            return f.filled(0)
        if self.importance == "rwalk":
            return self.lam * (of_largest(f) + of_largest(s) if self.scale == "largest" else f + s)
        return self.lam * f

    def mixed(self, old: Parameters, fresh: Parameters, t: int) -> Parameters:
        """F^k <- gamma F_t + (1 - gamma) F^k, Eq. 4."""
        if t == 0:
            return fresh
        return old + fresh if self.fisher_update == "sum" else self.gamma * old + (1 - self.gamma) * fresh

    def server_update(self, server: State, updates: Sequence[Update], clients: int, t: int) -> State:
        """Eq. 2; F <- mean_S F^k, and so S. Coordinates that no client says anything of take the plain mean."""
        theta_t = server["theta"]
        g = [self.weight(update) for update in updates]
        total = summed(g)
        top = summed(g_k * update.theta for g_k, update in zip(g, updates, strict=True))
        plain = self.averaged(theta_t, updates)
        if not self.weighted:
            theta = plain
        elif self.compat_eps > 0:
            theta = theta_t + self.server_lr * (top / (total + self.compat_eps) - theta_t)
        else:
            ours = theta_t + self.server_lr * (top / total - theta_t)
            theta = total.each(lambda g, ours, plain: torch.where(g > 0, ours, plain), ours, plain)
        new = {"theta": theta, "fisher": summed(update.sent["fisher"] for update in updates) / len(updates)}
        if self.importance == "rwalk":
            new["score"] = summed(update.sent["score"] for update in updates) / len(updates)
        return server | new

    def weight(self, update: Update) -> Parameters:
        """g^k, each tensor divided by its norm; a tensor of zeros says nothing."""
        f = update.sent["fisher" if self.agg_fisher == "ema" else "fresh"]
        g = f + update.sent["score"] if self.importance == "rwalk" else f
        samples = update.client.n if self.weights == "data" else 1
        return samples * g.each(lambda own: own / norm(own, self.layer_norm) if own.any() else own)

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """The model, F and with rwalk S: 2 P or 3 P; the model alone before anybody has trained."""
        return server["theta"].count() * width * (1 if not when.anybody else 3 if self.importance == "rwalk" else 2)

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """The model, F^k and with rwalk s^k: 2 P or 3 P, and two numbers."""
        return ((3 if self.importance == "rwalk" else 2) * theta.count() + 2) * width


def of_largest(vector: Parameters) -> Parameters:
    """A vector divided by its largest entry, unless that is 0."""
    return vector / vector.largest() if vector.largest() > 0 else vector


def norm(tensor: Tensor, kind: str) -> Tensor:
    """Of all entries of a tensor; 1 for kind none."""
    if kind == "none":
        return torch.ones(())
    return {"l2": tensor.square().sum().sqrt(), "l1": tensor.abs().sum(), "max": tensor.abs().max()}[kind]
