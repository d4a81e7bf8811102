"""FedKA (Chen et al. 2023): clients keep the received model's logits on anchors of classes they hardly have."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from fedavg import FedAvg, Update
from local_training import Client, State, local_sgd
from parameters import Parameters
from torch import Tensor


@dataclass(frozen=True)
class FedKA(FedAvg):
    """Clients minimise L_k + beta / |T| sum over x in T, c not in C_d of (f_g(x)_c - f_k(x)_c)^2.

    Attributes:
        beta: weight of the anchors.
        gamma: share of a client's samples from which a class is dominant; 0.5 / C if not given.
        anchors: mu, the most anchors of a client in a round.
        strategy: random; hard, or proficient: the own sample with the largest, or least, loss of the received model.
        classes: both, non_dominant or missing: which classes have anchors.
        reduction: sum, or mean over the logits kept.
    """

    beta: float = 0.1
    gamma: float | None = None
    anchors: int = 10
    strategy: str = "random"
    classes: str = "both"
    reduction: str = "sum"

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """See FedAvg."""
        model, theta_t = client.model, server["theta"].having(client.statistics)
        kept, chosen = self.classes_of(client)
        t_i = [self.anchor(client, label, theta_t) for label in chosen]
        received = [model.logits(theta_t, x[None])[0].detach() for x in t_i]

        def objective(theta: Parameters, x: Tensor, y: Tensor) -> Tensor:
            if not t_i or not kept:
                return model.loss(theta, x, y)
            outputs = model.logits(Parameters(theta), torch.stack(t_i))
            loss = model.loss(theta, x, y)
            squares = [(f_g - f_i)[kept].square() for f_g, f_i in zip(received, outputs, strict=True)]
            each = [s.sum() if self.reduction == "sum" else s.mean() for s in squares]
            return loss + self.beta * torch.stack(each).mean()

        trained = local_sgd(client, theta_t, objective=objective)
        return Update(client, trained.theta, trained.loss)

    def classes_of(self, client: Client) -> tuple[list[int], list[int]]:
        """The classes whose logits are kept, and those that have an anchor in this round."""
        c = len(client.shared)
        gamma = 0.5 / c if self.gamma is None else self.gamma
        count = [int((client.y == label).sum()) for label in range(c)]
        missing = [label for label in range(c) if count[label] == 0]
        non_dominant = [label for label in range(c) if 0 < count[label] / client.n < gamma]
        kept = sorted(missing + non_dominant)
        missing = [label for label in missing if client.known[label]]
        has_anchor = {"both": sorted(missing + non_dominant), "non_dominant": non_dominant, "missing": missing}[
            self.classes
        ]
        draw = client.draws(1, c)
        return kept, sorted(has_anchor, key=lambda label: float(draw[label]))[: self.anchors]

    def anchor(self, client: Client, label: int, theta_t: Parameters) -> Tensor:
        """The sample that stands for a class."""
        own = [i for i in range(client.n) if int(client.y[i]) == label]
        if not own:
            return client.shared[label]
        draw = client.draws(0, client.n)
        score = {i: float(draw[i]) for i in own}
        if self.strategy != "random":
            sign = 1 if self.strategy == "hard" else -1
            losses = {i: client.model.loss(theta_t, client.x[i : i + 1], client.y[i : i + 1]) for i in own}
            score = {i: sign * float(loss.detach()) for i, loss in losses.items()}
        return client.x[max(own, key=score.__getitem__)]

    @property
    def gives_samples(self) -> bool:
        """S."""
        return True
