"""Fisher-weighted averaging with EWC or RWalk: "importance from agent".

Kim, Kim and Kim, Overcoming Forgetting in Federated Learning via Importance From Agent, term project, Seoul National
University 2020, Eq. 1-4 and Algorithm 1.

The average is Eq. 2's, each tensor of a client's Fisher divided by its norm; Algorithm 1's further 1/m would shrink the
model, and the official code has none. Where no client knows anything of a coordinate the plain mean counts. RWalk is
Chaudhry et al. 2018 with one window of `interval` steps after the other; the paper gives it one sentence.

The Fisher information is per sample. The official code squares the mean gradient of batches of 100 (`batch_mean_sq`),
about 100 times less: its lam is as much too strong here. lam = 1e5 is the paper's; explicit steps of such a penalty
diverge, so the step is proximal by default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fl_ddp.bounds import Count, CountOrZero, NonNegative, Positive, UnitInterval
from fl_ddp.engine.group import Group
from fl_ddp.importance.fisher import Reduction, fisher
from fl_ddp.importance.rwalk import rwalk_score, rwalk_window
from fl_ddp.importance.scale import Norm, by_tensor_norm, of_largest
from fl_ddp.importance.sensitivity import Label
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Info, Quadratic, Round, Tensors, Term, Total, Upload


@dataclass(frozen=True)
class FisherAvg(FedAvg):
    """Average each coordinate by what the clients' Fisher information says of it, and hold on to it locally.

    Attributes:
        weights: of the clients in the average: uniform, as the paper's, or data, where what a client's Fisher says
            counts by its samples, as a share of the largest client's; the Fisher that is kept stays a plain mean.
        lam: strength of the penalty lam / 2 sum importance (theta - theta_t)^2; 0 leaves the weighted average alone.
            The default is the paper's, of batch_mean_sq: with per_sample_mean it is too strong by about the batch size.
        gamma: weight of the old global Fisher in a client's new one, Eq. 4; 0 keeps nothing of it (the code's `own`).
        weighted: average by Fisher information; false takes the plain mean.
        layer_norm: norm that each tensor of a client's Fisher is divided by before it weighs.
        agg_fisher: what weighs in the average, the one mixed with the global Fisher (ema, the code's) or the fresh one.
        fisher_update: a client's new Fisher: ema (Eq. 4), or sum (old + fresh, the code's `summation`).
        importance: in the penalty: fisher, or rwalk, Fisher and path score together, which wants a lam of its own.
        scale: of the two in rwalk: largest divides each by its largest entry, so that lam is far below EWC's; none
            takes them as they are, as Chaudhry et al. do.
        kind: labels of the Fisher: empirical (the data's), exact (expectation over the model's) or mc (draws of them).
        reduction: of its squares: per_sample_mean; sum, with which a client counts by its samples where no norm says
            otherwise; or batch_mean_sq, the code's.
        fisher_batch: samples of a batch in batch_mean_sq.
        fisher_samples: of a client that its Fisher is measured on, 0 for all.
        fisher_draws: labels that mc draws for each sample, at the price of as many passes.
        penalty_step: proximal, which is stable for any lam, or explicit.
        compat_eps: above 0, the code's average sum(g theta) / (sum(g) + eps), in which unknown coordinates become 0.
        interval: local steps of a window of RWalk.
        alpha: weight of the newest gradient in RWalk's running Fisher.
        eps: damping of RWalk's score.
    """

    weights: Literal["data", "uniform"] = "uniform"
    lam: NonNegative = 1e5
    gamma: UnitInterval = 0.9
    weighted: bool = True
    layer_norm: Norm = "l2"
    agg_fisher: Literal["ema", "fresh"] = "ema"
    fisher_update: Literal["ema", "sum"] = "ema"
    importance: Literal["fisher", "rwalk"] = "fisher"
    scale: Literal["largest", "none"] = "largest"
    kind: Label = "empirical"
    reduction: Reduction = "per_sample_mean"
    fisher_batch: Count = 100
    fisher_samples: CountOrZero = 0
    fisher_draws: Count = 1
    penalty_step: Literal["explicit", "proximal"] = "proximal"
    compat_eps: NonNegative = 0.0
    interval: Count = 10
    alpha: UnitInterval = 0.9
    eps: Positive = 1e-3

    broadcast: ClassVar[tuple[str, ...]] = ("theta", "fisher", "score")
    neutral: ClassVar[Mapping[str, float] | None] = {"lam": 0.0, "weighted": False}
    coefficients: ClassVar[tuple[str, ...]] = ("lam",)

    @property
    def needs_classes(self) -> bool:
        """Other labels than the data's are drawn by the classes' probabilities."""
        return self.kind != "empirical"

    def init(self) -> Tensors:
        """The model; the Fisher and the score of the path are zero, so the first round has no penalty."""
        theta = self.model.init()
        return {"theta": theta, "fisher": torch.zeros_like(theta), "score": torch.zeros_like(theta)}

    def sent(self, in_round: Round) -> tuple[str, ...]:
        """The Fisher is known when somebody has trained; the score is RWalk's alone."""
        later = self.broadcast if self.importance == "rwalk" else ("theta", "fisher")
        return later if in_round.previous >= 0 else ("theta",)

    def priors(self, server: Tensors, mine: Tensors) -> tuple[Quadratic, ...]:
        """Eq. 3."""
        return (Quadratic(self.lam * server["omega"], server["theta"], exact=self.penalty_step == "proximal"),)

    def track(self, trace: Tensors, old: Tensor, new: Tensor, g: Tensor, step: Tensor) -> Tensors:
        """RWalk's windows."""
        return rwalk_window(trace, old, new, g, step, self.interval, self.alpha, self.eps)

    def _omega(self, server: Tensors) -> Tensor:
        """What the penalty weighs each coordinate by."""
        f, score = server["fisher"], server["score"]
        if self.importance == "fisher":
            return f
        return of_largest(f) + of_largest(score) if self.scale == "largest" else f + score

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Local training with the penalty, then the client's Fisher and its weight in the average."""
        rwalk, theta = self.importance == "rwalk", server["theta"]
        omega = self._omega(server)
        trace = {"start": theta} | dict.fromkeys(("w", "score", "f"), torch.zeros_like(theta)) if rwalk else None
        trained = group.train(theta, self, {"theta": theta, "omega": omega}, {}, trace)
        fresh = fisher(group, trained.theta, self.model, kind=self.kind, reduction=self.reduction,
                       batch_size=self.fisher_batch, max_samples=self.fisher_samples,
                       draws=self.fisher_draws)  # fmt: skip
        old, new = (1.0, 1.0) if self.fisher_update == "sum" else (self.gamma, 1 - self.gamma)
        first = group.previous < 0
        mixed = fresh if first else old * server["fisher"] + new * fresh
        own: dict[str, Tensor | Term] = {"fisher": mixed}
        weight = mixed if self.agg_fisher == "ema" else fresh
        if rwalk:
            score = (server["score"] + rwalk_score(trained.trace, trained.theta, self.eps)) / (1 if first else 2)
            own["score"] = score
            weight = weight + score
        known = by_tensor_norm(self.model, weight, self.layer_norm)
        if self.weights == "data":
            known = known * (group.n / group.largest)[:, None]  # at most 1, as exact sums want it
        sent = self.average(group, server, trained) | own  # the weight follows from the client's Fisher
        known_delta = Term(trained.theta, minus=theta, weight=known)
        return Upload(sent | {"known": known, "known_delta": known_delta}, trained.theta, sent=sent)

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """Eq. 2 in place of the mean; the global Fisher is the mean of the clients'."""
        theta, step = server["theta"].double(), self.mean_delta(total)
        if self.weighted:
            known = total.sums["known"] + self.compat_eps
            # products with smaller weights would be lost below the 2^-62 that exact sums resolve
            step = torch.where(known > 2.0**-40, (total.sums["known_delta"] - self.compat_eps * theta) / known, step)
        sums = {name: total.sums[name] for name in ("fisher", "score") if name in total.sums}
        means = {name: (t / len(info.cohort)).to(server[name].dtype) for name, t in sums.items()}
        return server | means | {"theta": (theta + self.server_lr * step).to(server["theta"].dtype)}
