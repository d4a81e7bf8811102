"""Online EWC (Schwarz et al. 2018) in a federation: clients stay near the model that the last task ended with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from fedavg import FedAvg, Update, When
from importance import FisherOptions, fisher
from local_training import Client, State, local_sgd
from parameters import Parameters, summed


@dataclass(frozen=True)
class OnlineEWC(FedAvg):
    """Clients minimise L_k(theta) + lam / 2 sum_j F_j (theta_j - theta*_j)^2; F <- decay F + sum_k p_k F^k.

    Attributes:
        lam: strength of the penalty.
        centre: theta* is the model at the end of the last task; or, with each, the penalty is
            lam / 2 sum_t sum_j F^t_j (theta_j - theta^t_j)^2 over the tasks so far, theta^t the model at the end of t.
        decay: of F when a task is over.
        kind: see importance.FisherOptions.
        fisher_samples: likewise.
        fisher_draws: likewise.
        penalty_step: proximal, or explicit, along the penalty's gradient.
    """

    lam: float = 100.0
    centre: str = "last"
    decay: float = 1.0
    kind: str = "empirical"
    fisher_samples: int = 0
    fisher_draws: int = 1
    penalty_step: str = "proximal"

    def server_start(self, theta: Parameters, clients: int) -> State:
        """See FedAvg."""
        return {"theta": theta, "anchor": theta, "fisher": theta.filled(0)}

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """Train near the anchor; in a task's last round, measure Fisher information at the received model."""
        theta_t, (held, star) = server["theta"], self.penalty(server)
        if self.penalty_step == "explicit":
            trained = local_sgd(client, theta_t, pull=lambda theta: held * (theta - star))
        else:
            trained = local_sgd(client, theta_t, solve=lambda x, far: (x + far * held * star) / (1 + far * held))
        options = FisherOptions(self.kind, "per_sample_mean", 100, self.fisher_samples, self.fisher_draws)
        sent = {"fisher": fisher(client, theta_t.having(client.statistics), options)} if client.ends_task else {}
        return Update(client, trained.theta, trained.loss, sent=sent)

    def penalty(self, server: State) -> tuple[Parameters, Parameters]:
        """Curvature and centre of the penalty's terms together."""
        if self.centre == "last":
            return self.lam * server["fisher"], server["anchor"]
        ends = [name.removeprefix("F of ") for name in server if name.startswith("F of ")]
        f = summed([server["fisher"].filled(0), *(server[f"F of {end}"] for end in ends)])
        top = summed([f.filled(0), *(server[f"F of {end}"] * server[f"theta of {end}"] for end in ends)])
        centre = (top / f).each(lambda mean, own: torch.where(mean.isnan(), own, mean), server["anchor"])
        return self.lam * f, centre

    def server_update(self, server: State, updates: Sequence[Update], clients: int, t: int) -> State:
        """FedAvg, and F."""
        new = super().server_update(server, updates, clients, t)
        if not updates[0].client.ends_task:
            return new
        shares = zip(self.shares(updates), updates, strict=True)
        fresh = summed(p_k * update.sent["fisher"] for p_k, update in shares)
        if self.centre == "each":
            earlier = {name: self.decay * of for name, of in server.items() if name.startswith("F of ")}
            new |= earlier | {f"F of {t}": fresh, f"theta of {t}": new["theta"]}
        return new | {"fisher": self.decay * server["fisher"] + fresh}

    def task_ended(self, server: State, task: int) -> State:
        """theta* is theta."""
        return server | {"anchor": server["theta"]} if self.centre == "last" else server

    def stored(self, server: State) -> State:
        """Of all tasks' terms, curvature and centre."""
        return {"theta": server["theta"], "fisher": server["fisher"], "anchor": self.penalty(server)[1]}

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """The model; after the first task theta* and F, too."""
        return (1 if when.task == 0 else 3) * server["theta"].count() * width

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """The model and two numbers, and when a task ends F^k."""
        return ((2 if ends_task else 1) * theta.count() + 2) * width
