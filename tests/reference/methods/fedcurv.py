"""FedCurv (Shoham et al. 2019): clients stay near the others' models where the others' Fisher information is large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

import torch
from fedavg import FedAvg, Update, When
from importance import FisherOptions, fisher
from local_training import RUNNING, Client, State, local_sgd
from parameters import Parameters, summed

PLACE = 4
"""Bytes of the place of a coordinate that is sent without its neighbours."""


@dataclass(frozen=True)
class FedCurv(FedAvg):
    """Clients minimise L_s(theta) + lam sum_{j != s} (theta - theta_j)' diag(I_j) (theta - theta_j), Eq. 3.

    The server of this file knows I_j and theta_j of every client j, where the paper's has u and v, the sums of I_j and
    of I_j theta_j.

    Attributes:
        lam: the paper's lambda.
        partial: the clients j: the latest of every one that ever took part, or last_round's cohort.
        top_q: share of the coordinates of which a client sends I_s and I_s theta_s, those where I_s is largest.
        upload: whether it sends I_s theta_s, too (theta_I_v), or the server makes it of the two (theta_I).
        sparse_delta: whether of the change of its model, too, it sends only these.
        kind: see importance.FisherOptions.
        reduction: likewise.
        fisher_batch: likewise.
        fisher_samples: likewise.
        fisher_draws: likewise.
        penalty_step: explicit, along the penalty's gradient, or proximal.
    """

    lam: float = 1.0
    partial: str = "latest"
    top_q: float = 1.0
    upload: str = "theta_I_v"
    sparse_delta: bool = False
    kind: str = "empirical"
    reduction: str = "per_sample_mean"
    fisher_batch: int = 100
    fisher_samples: int = 0
    fisher_draws: int = 1
    penalty_step: str = "explicit"

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """Train against the others' curvature, then measure the own one at the trained model."""
        theta_t, lam = server["theta"], self.lam
        u, v = sums([(i_j, theta_j) for j, i_j, theta_j in curvatures(server) if j != client.id], theta_t)
        if self.penalty_step == "explicit":
            trained = local_sgd(client, theta_t, pull=lambda theta: 2 * lam * (u * theta - v))
        else:
            trained = local_sgd(client, theta_t, solve=lambda x, far: (x + 2 * far * lam * v) / (1 + 2 * far * lam * u))
        theta = trained.theta
        how = FisherOptions(self.kind, self.reduction, self.fisher_batch, self.fisher_samples, self.fisher_draws)
        i_s = fisher(client, theta, how)
        chosen = chosen_coordinates(i_s, self.top_q)
        change = theta - theta_t
        return Update(
            client,
            theta,
            trained.loss,
            memory={"u": chosen * i_s, "v": chosen * i_s * theta},
            sent={"I": chosen * i_s, "theta": theta, "change": chosen * change if self.sparse_delta else change},
        )

    def server_update(self, server: State, updates: Sequence[Update], clients: int, t: int) -> State:
        """Average the models, and keep what the clients sent of their curvature in place of what they sent before."""
        known = dict(server) if self.partial == "latest" else {}
        for update in updates:
            known[f"I of {update.client.id}"] = update.sent["I"]
            known[f"theta of {update.client.id}"] = update.sent["theta"]
        changes = [update.sent["change"] for update in updates]
        return known | {"theta": self.averaged(server["theta"], updates, changes)}

    def stored(self, server: State) -> State:
        """u and v, and the sums that they are rounded from."""
        u, v = sums([(i_j, theta_j) for _, i_j, theta_j in curvatures(server)], server["theta"])
        return {"theta": server["theta"], "u": u, "v": v, "sum_u": u, "sum_v": v}

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """The model, u and v: 3 P; the model alone before anybody has trained."""
        return (3 if when.anybody else 1) * server["theta"].count() * width

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """The model, I_s, maybe I_s theta_s, and two numbers; where it is less, only q P of them and their places."""
        statistics = theta.only([name for name in theta if name.endswith(RUNNING)]).count()
        dense, chosen = theta.count(), ceil(self.top_q * (theta.count() - statistics))
        beside = 2 if self.upload == "theta_I_v" else 1
        change = chosen + statistics if self.sparse_delta else dense
        sparse = (change + beside * chosen) * width + chosen * PLACE
        return min(sparse, (1 + beside) * dense * width) + 2 * width


def curvatures(server: State) -> list[tuple[int, Parameters, Parameters]]:
    """j, I_j and theta_j of each client j that the server knows of."""
    known = [int(name.removeprefix("I of ")) for name in server if name.startswith("I of ")]
    return [(j, server[f"I of {j}"], server[f"theta of {j}"]) for j in known]


def sums(known: Sequence[tuple[Parameters, Parameters]], like: Parameters) -> tuple[Parameters, Parameters]:
    """u and v, the sums of I_j and of I_j theta_j."""
    nothing = like.filled(0)
    u = summed([nothing, *(i_j for i_j, _ in known)])
    v = summed([nothing, *(i_j * theta_j for i_j, theta_j in known)])
    return u, v


def chosen_coordinates(information: Parameters, q: float) -> Parameters:
    """1 for the ceil(q P) largest coordinates, 0 for the others; P aside from running statistics, which have none."""
    known = [own.flatten() for name, own in information.items() if not name.endswith(RUNNING)]
    everything = torch.cat(known).sort(descending=True).values
    least = everything[ceil(q * len(everything)) - 1]
    return information.each(lambda own: (own >= least).double())
