"""FedKA: Chen, Zhu, Zheng, Towards Fast and Stable Federated Learning: Confronting Heterogeneity via Knowledge Anchor.

2023, arXiv 2312.02416, Algorithm 1; it does not give gamma. Before training everyone gets one sample of each class, S.
In a round a client's anchors are a sample of its own of each class that it has little of, and S's of each that it has
none of; its model keeps to what the received one says of them, but for the logits of the classes it has much of.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor, vmap

from fl_ddp.bounds import Count, NonNegative, UnitInterval
from fl_ddp.clients.own_samples import (
    best_of_class,
    class_counts,
    inputs_at,
    is_shared,
    labels,
    of_each,
    shared_inputs,
)
from fl_ddp.engine.group import Group
from fl_ddp.engine.seeds import uniform
from fl_ddp.losses.criterion import mean_over
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Batch, Leaves, Tensors, Upload

_WHICH_SAMPLE, _WHICH_CLASS = range(2)
"""Streams of a client's key."""


@dataclass(frozen=True)
class FedKA(FedAvg):
    """FedAvg whose clients keep the received model's logits on anchors of the classes that they hardly have.

    Of tasks with labels of their own (--stream.scenario task, or seen) others are missing ones: their logits are kept.

    Attributes:
        beta: weight of the anchors' loss.
        gamma: share of a client's samples from which a class is dominant, its logit free; 0.5 / C if not given.
        anchors: most of a client in a round, the paper's mu; the others are dropped at random.
        strategy: which sample of a class is its anchor: random, or hard or proficient, of the largest or least loss
            under the received model.
        classes: that anchors are of: both, non_dominant (the client's own samples) or missing (those of S).
        reduction: of the squares over an anchor's kept logits: sum, or mean.
    """

    beta: NonNegative = 0.1
    gamma: UnitInterval | None = None
    anchors: Count = 10
    strategy: Literal["random", "hard", "proficient"] = "random"
    classes: Literal["both", "non_dominant", "missing"] = "both"
    reduction: Literal["sum", "mean"] = "sum"

    neutral: ClassVar[Mapping[str, float] | None] = {"beta": 0.0}
    coefficients: ClassVar[tuple[str, ...]] = ("beta",)
    shares_samples: ClassVar[bool] = True

    def loss(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> Tensor:
        """Cross-entropy + beta / |T| sum over anchors x of ||Phi(f_g(x)) - Phi(f_i(x))||^2."""
        gap = (self.model.logits(theta, mine["anchors"]) - mine["logits"]).square() * mine["kept"]
        distance = gap.sum(-1) / (mine["kept"].sum().clamp_min(1) if self.reduction == "mean" else 1)
        return self.model.loss(theta, batch) + self.beta * mean_over(mine["real"], distance)

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Draw the round's anchors, then train."""
        anchors = self.anchored(group, self.received(group, server["theta"]))
        trained = group.train(server["theta"], self, server, anchors)
        return Upload(self.average(group, server, trained), trained.theta)

    def anchored(self, group: Group, theta: Tensor) -> Tensors:
        """Anchors [G, A, ...], theta's logits [G, A, C] on them, which are real [G, A], which logits kept [G, C]."""
        num_classes = self.model.num_classes
        gamma = 0.5 / num_classes if self.gamma is None else self.gamma
        share = class_counts(group, num_classes) / group.n.clamp_min(1)[:, None]
        missing = share == 0
        kept = missing | (share < gamma)
        of_classes = {"both": kept, "non_dominant": kept & ~missing, "missing": missing}[self.classes]
        wanted = of_classes & (~missing | is_shared(group))
        own = inputs_at(group, best_of_class(group, self._score(group, theta), num_classes))
        candidates = torch.where(missing.view(*missing.shape, *[1] * (own.ndim - 2)), shared_inputs(group), own)
        # classes that are wanted come first, in a random order
        order = uniform(group.keys, _WHICH_CLASS, [num_classes]) + (~wanted)
        chosen = order.argsort(dim=1)[:, : self.anchors]
        anchors = candidates[torch.arange(group.lanes, device=chosen.device)[:, None], chosen]
        return {
            "anchors": anchors,
            "logits": vmap(self.model.logits, (None if theta.ndim == 1 else 0, 0))(theta, anchors),
            "real": wanted.gather(1, chosen).to(share),
            "kept": kept.to(share),
        }

    def _score(self, group: Group, theta: Tensor) -> Tensor:
        """What decides among a client's samples of a class [G, N]."""
        if self.strategy == "random":
            return uniform(group.keys, _WHICH_SAMPLE, [labels(group).shape[1]])

        def nll(theta: Tensor, batch: Batch) -> Tensors:
            return {"nll": self.model.nll(theta, batch.x, batch.y, batch.allowed)}

        loss = of_each(group, nll, theta)["nll"]
        return loss if self.strategy == "hard" else -loss
