"""FedCurv: Shoham et al., Overcoming Forgetting in Federated Learning on Non-IID Data, NeurIPS workshop 2019.

arXiv 1910.07796, Eq. 3 and Section 3.1. The paper has all clients take part; for fewer, `partial` says whose curvature
counts. The Fisher information is per sample; public code squares the mean gradient of a batch (`batch_mean_sq`), which
is smaller by about the batch size, so that a lam tuned on one is wrong for the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fl_ddp.bounds import Count, CountOrZero, NonNegative, Share
from fl_ddp.engine.group import Group
from fl_ddp.importance.fisher import Reduction, fisher
from fl_ddp.importance.sensitivity import Label
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Info, Quadratic, Round, Tensors, Term, Total, Upload


@dataclass(frozen=True)
class FedCurv(FedAvg):
    """FedAvg whose clients stay near the others' models where the others' Fisher information is large.

    Attributes:
        lam: strength of the penalty, the paper's lambda; it goes with 1 / clients, whose Fishers are summed.
        partial: clients whose curvature counts: the latest of every client that ever took part, or last_round's cohort.
        top_q: share of the coordinates a client sends of its Fisher, the largest ones, where that is less than all; the
            server then keeps each client's last ones, which new ones replace.
        upload: theta_I_v, the model, its Fisher and their product, or theta_I: a server that keeps each client's last
            ones makes the product itself. Nothing but the traffic is less.
        sparse_delta: whether the change of its model, too, is sent in these coordinates alone, and of BatchNorm's
            running statistics, which have no Fisher.
        kind: labels of the Fisher: empirical (the data's), exact (expectation over the model's) or mc (draws of them).
        reduction: of its squares: per_sample_mean; sum, with which a client counts by its samples; or batch_mean_sq as
            public code has it.
        fisher_batch: samples of a batch in batch_mean_sq.
        fisher_samples: of a client that its Fisher is measured on, 0 for all.
        fisher_draws: labels that mc draws for each sample, at the price of as many passes.
        penalty_step: explicit, or proximal, which is stable for any lam.
    """

    lam: NonNegative = 1.0
    partial: Literal["latest", "last_round"] = "latest"
    top_q: Share = 1.0
    upload: Literal["theta_I_v", "theta_I"] = "theta_I_v"
    sparse_delta: bool = False
    kind: Label = "empirical"
    reduction: Reduction = "per_sample_mean"
    fisher_batch: Count = 100
    fisher_samples: CountOrZero = 0
    fisher_draws: Count = 1
    penalty_step: Literal["explicit", "proximal"] = "explicit"

    broadcast: ClassVar[tuple[str, ...]] = ("theta", "u", "v")
    neutral: ClassVar[Mapping[str, float] | None] = {"lam": 0.0}
    coefficients: ClassVar[tuple[str, ...]] = ("lam",)

    @property
    def needs_classes(self) -> bool:
        """Other labels than the data's are drawn by the classes' probabilities."""
        return self.kind != "empirical"

    def init(self) -> Tensors:
        """No curvature is known yet; the sums behind u = sum I_k and v = sum I_k theta_k are kept in float64."""
        theta = self.model.init()
        zero, exact = torch.zeros_like(theta), torch.zeros_like(theta, dtype=torch.float64)
        return {"theta": theta, "u": zero, "v": zero.clone(), "sum_u": exact, "sum_v": exact.clone()}

    def init_client(self) -> Tensors:
        """What the client last sent, and in which round."""
        zero = torch.zeros_like(self.model.init())
        return {"u": zero, "v": zero.clone(), "round": torch.tensor(-1)}

    def sent(self, in_round: Round) -> tuple[str, ...]:
        """Curvature travels once somebody has trained."""
        return self.broadcast if in_round.previous >= 0 else ("theta",)

    def priors(self, server: Tensors, mine: Tensors) -> tuple[Quadratic, ...]:
        """The others' curvature: 2 lam (u theta - v) as 2 lam u (theta - v / u), never negative."""
        u, v = (server["u"] - mine["u"]).clamp_min(0), server["v"] - mine["v"]
        anchor = v / torch.where(u > 0, u, torch.inf)
        return (Quadratic(2 * self.lam * u, anchor, exact=self.penalty_step == "proximal"),)

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Local training against the others' curvature, then the client's own."""
        latest = self.partial == "latest"
        counted = torch.ones_like(memory["round"]) if latest else memory["round"] == group.previous
        own = {name: memory[name] * counted[:, None] for name in ("u", "v")}
        trained = group.train(server["theta"], self, server, own)
        u = fisher(group, trained.theta, self.model, kind=self.kind, reduction=self.reduction,
                   batch_size=self.fisher_batch, max_samples=self.fisher_samples,
                   draws=self.fisher_draws)  # fmt: skip
        average = self.average(group, server, trained)
        curvature = ("u", "v") if self.upload == "theta_I_v" else ("u",)
        sent: dict[str, Tensor | Term] | None = None if self.upload == "theta_I_v" else average | {"u": u}
        if self.top_q < 1:
            running = self.model.running
            num_running = sum(self.model.shapes[i].numel() for i in running)
            num_sent = ceil(round(self.top_q * (self.model.num_params - num_running), 6))
            values, index = u.topk(num_sent)
            u = torch.zeros_like(u).scatter(1, index, values)
            sparse = (*curvature, "delta") if self.sparse_delta else curvature
            beside = dict[str, Tensor]()
            if self.sparse_delta:
                theta = server["theta"].expand_as(u).scatter(1, index, trained.theta.gather(1, index))
                if running:
                    beside["running"] = self.model.take(trained.theta, running)
                    theta = self.model.put(theta, running, beside["running"])
                average = self.average(group, server, trained._replace(theta=theta))
            num_beside = num_running if beside else 0
            if (len(sparse) + 1) * num_sent + num_beside < len(sparse) * self.model.num_params:
                sent = average | dict.fromkeys(sparse, values) | {"index": index.int()} | beside
        new = {"u": u, "v": u * trained.theta}
        sums = average | {name: Term(t, minus=memory[name] if latest else None) for name, t in new.items()}
        return Upload(sums, trained.theta, new | {"round": torch.full_like(memory["round"], group.round)}, sent)

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """FedAvg, and the sums of all contributions that count."""
        kept = 1.0 if self.partial == "latest" else 0.0
        sums = {f"sum_{name}": kept * server[f"sum_{name}"] + total.sums[name] for name in ("u", "v")}
        rounded = {name: sums[f"sum_{name}"].to(server[name].dtype) for name in ("u", "v")}
        return super().server_update(server, total, info) | sums | rounded
