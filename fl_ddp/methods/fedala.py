"""FedALA: Zhang et al., FedALA: Adaptive Local Aggregation for Personalized Federated Learning, AAAI 2023.

arXiv 2212.01197, Algorithm 1. The first time weights are learned until their loss settles, later in one pass over a
share of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fl_ddp.bounds import Count, NonNegative, Positive, Share
from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Batch, Leaves, Tensors, Upload


@dataclass(frozen=True)
class FedALA(FedAvg):
    """FedAvg whose clients begin at a mixture of their own last model and the received one, learned by coordinate.

    Attributes:
        eta: step of the mixing weights; 0 always begins at the received model.
        share: of a client's samples, others in each round, that they are learned on, with short batches.
        layers: tensors that are mixed, counted from the last; the others are taken as received.
        threshold: deviation of the last losses below which they have settled, the first time.
        losses: number of these.
        passes: most passes the first time.
    """

    eta: NonNegative = 1.0
    share: Share = 0.8
    layers: Count = 2
    threshold: Positive = 0.1
    losses: Count = 10
    passes: Count = 50

    neutral: ClassVar[Mapping[str, float] | None] = {"eta": 0.0}

    def init_client(self) -> Tensors:
        """Weights of 1 take what is received."""
        theta = self.model.init()
        w = torch.ones_like(self.model.take(theta, self.model.last(self.layers)))
        return {"theta": theta, "w": w, "times": torch.zeros(())}

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Learn the weights (Eq. 5), then train from the mixture (Eq. 4)."""
        w = self.learned(group, server, memory)
        trained = group.train(self.mixture(server, memory, w), self, server, {})
        kept = {"theta": trained.theta, "w": w, "times": memory["times"] + 1}
        return Upload(self.average(group, server, trained), trained.theta, memory=kept)

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> Tensor:
        """The mixture by the weights that it has (Eq. 4), before it learns them anew."""
        return self.mixture(server, memory, memory["w"])

    def mixture(self, server: Tensors, memory: Tensors, w: Tensor) -> Tensor:
        """Received models whose last layers are mixed with clients' own ones by weights (Eq. 4)."""
        top = self.model.last(self.layers)
        own, received = (self.model.take(each["theta"], top) for each in (memory, server))
        return self.model.put(server["theta"], top, mixed(received, own, w))

    def learned(self, group: Group, server: Tensors, memory: Tensors) -> Tensor:
        """The weights after this round's passes; a client that never trained has nothing to mix."""
        plan = Plan(group.plan.batch_size, self.share, None, self.eta)  # plain SGD, whatever the clients train by
        objective, w, losses = _Mixing(self.model, layers=self.layers), memory["w"], list[Tensor]()
        goes_on = memory["times"] > 0
        for turn in range(1, self.passes + 1):
            # all passes of a round are over the same samples; data decide who goes on: lanes that are done stay
            passed = group.train(w, objective, server, {"theta": memory["theta"]}, plan=plan, draw=1)
            w = torch.where(goes_on[:, None], passed.theta, w)
            losses.append(passed.loss)
            goes_on = goes_on & (memory["times"] == 1)
            if turn > self.losses:
                goes_on = goes_on & (torch.stack(losses[-self.losses :]).std(0, correction=0) >= self.threshold)
            if not bool(goes_on.any()):
                break
        return w


def mixed(received: Tensor, own: Tensor, w: Tensor) -> Tensor:
    """Received parameters where w is 1, bit for bit, and a client's own where it is 0."""
    return received - (received - own) * (1 - w)


@dataclass(frozen=True)
class _Mixing(FedAvg):
    """The objective of the weights w in [0, 1]."""

    layers: Count = 2

    def leaves(self, vector: Tensor) -> Leaves:
        return self.model.leaves(vector, self.model.last(self.layers))

    @property
    def running(self) -> tuple[int, ...]:
        return ()

    def loss(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> Tensor:
        leaves, own = list(self.model.leaves(server["theta"])), self.model.leaves(mine["theta"])
        for i, w in zip(self.model.last(self.layers), theta, strict=True):
            leaves[i] = mixed(leaves[i], own[i], w)
        return self.model.loss(tuple(leaves), batch)

    def project(self, new: Tensor, old: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        return new.clamp(0, 1)
