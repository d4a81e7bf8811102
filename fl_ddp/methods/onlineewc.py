"""Online EWC: Schwarz et al., Progress & Compress: A scalable framework for continual learning, ICML 2018, Section 4.

arXiv 1805.06370, on EWC (Kirkpatrick et al. 2017, arXiv 1612.00796, Eq. 3), in a federation: one penalty for all tasks
so far, whose centre is the server's model at the end of the last one, and whose curvature is the sum of the Fisher
informations that the clients measured in the last rounds of tasks, at the model that they received: what comes of that
round is known when the task's samples are gone, and at a client's own model, which fits them, there is little left.
EWC itself has a term for each task, around the model which that one ended with (`centre: each`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fl_ddp.bounds import Count, CountOrZero, NonNegative, UnitInterval
from fl_ddp.engine.group import Group
from fl_ddp.importance.fisher import fisher
from fl_ddp.importance.sensitivity import Label
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Info, Quadratic, Round, Tensors, Term, Total, Upload


@dataclass(frozen=True)
class OnlineEWC(FedAvg):
    """FedAvg whose clients stay near the model that earlier tasks of a --stream ended with.

    Attributes:
        lam: strength of the penalty, lam / 2 sum F (theta - theta*)^2; nothing in the first task. Beside a decay, the
            paper's Eq. 8 multiplies the penalty by gamma, too: lam is its lambda gamma. No task's F is normalised.
        centre: of the penalty: last, the model that the last task ended with; or each, where a task's Fisher is around
            the model that this task ended with.
        decay: of the earlier tasks' Fisher information with every task, gamma of the paper's Eq. 9; 1 keeps it.
        kind: labels of the Fisher: empirical (the data's), exact (expectation over the model's) or mc (draws of them).
        fisher_samples: of a client that its Fisher is measured on, 0 for all.
        fisher_draws: labels that mc draws for each sample, at the price of as many passes.
        penalty_step: proximal, which is stable for any lam, or explicit.
    """

    lam: NonNegative = 100.0
    centre: Literal["last", "each"] = "last"
    decay: UnitInterval = 1.0
    kind: Label = "empirical"
    fisher_samples: CountOrZero = 0
    fisher_draws: Count = 1
    penalty_step: Literal["explicit", "proximal"] = "proximal"

    broadcast: ClassVar[tuple[str, ...]] = ("theta", "anchor", "fisher")
    neutral: ClassVar[Mapping[str, float] | None] = {"lam": 0.0}
    coefficients: ClassVar[tuple[str, ...]] = ("lam",)

    @property
    def needs_classes(self) -> bool:
        """Other labels than the data's are drawn by the classes' probabilities."""
        return self.kind != "empirical"

    def init(self) -> Tensors:
        """No task is over."""
        theta = self.model.init()
        return {"theta": theta, "anchor": theta.clone(), "fisher": torch.zeros_like(theta)}

    def sent(self, in_round: Round) -> tuple[str, ...]:
        """No client is held to anything in the first task."""
        return self.broadcast if in_round.task > 0 else ("theta",)

    def priors(self, server: Tensors, mine: Tensors) -> tuple[Quadratic, ...]:
        """The penalty."""
        return (Quadratic(self.lam * server["fisher"], server["anchor"], exact=self.penalty_step == "proximal"),)

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Local training with the penalty; in a task's last round the Fisher at the received model, too."""
        received = self.received(group, server["theta"])
        trained = group.train(server["theta"], self, server, memory)
        sums: dict[str, Tensor | Term] = self.average(group, server, trained)
        if group.ends_task:
            own = fisher(group, received, self.model, kind=self.kind, max_samples=self.fisher_samples,
                         draws=self.fisher_draws)  # fmt: skip
            sums["fisher"] = Term(own, weight=sums["weight"])  # type: ignore[arg-type]
        return Upload(sums, trained.theta)

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """FedAvg; the mean of the clients' Fishers joins that of earlier tasks."""
        new = super().server_update(server, total, info)
        if "fisher" in total.sums:
            old, fresh = self.decay * server["fisher"].double(), total.sums["fisher"] / total.sums["weight"]
            both = old + fresh
            new["fisher"] = both.to(server["fisher"].dtype)
            if self.centre == "each":  # the sum of two quadratics is one around the mean of their centres
                mean = (old * server["anchor"] + fresh * new["theta"]) / both
                new["anchor"] = torch.where(both > 0, mean.to(server["anchor"].dtype), server["anchor"])
        return new

    def end_of_task(self, server: Tensors, task: int) -> Tensors:
        """The model is what the next tasks are held to, unless each task's is."""
        return server | {"anchor": server["theta"].clone()} if self.centre == "last" else server
