"""FedFomo: Zhang et al., Personalized Federated Learning with First Order Model Optimization, ICLR 2021.

arXiv 2012.08565, Eq. 3-4 and Algorithm 1. Distances are 2-norms by default; the official code takes 1-norms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import torch
from torch import Tensor

from fl_ddp.bounds import Count, NonNegative, Real, UnitInterval
from fl_ddp.clients.own_samples import sum_over
from fl_ddp.engine.group import Group
from fl_ddp.engine.seeds import uniform
from fl_ddp.losses.cross_entropy import one_hot
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Batch, Info, Round, Tensors, Total, Upload, alike

HeldOut = Annotated[float, Real(above=0, most=0.9)]


@dataclass(frozen=True)
class FedFomo(FedAvg):
    """Clients move towards those others' models that do better on their own held-out samples, then train.

    Attributes:
        models: that a client weighs, its own among them.
        held_out: share of a client's samples that models are judged on, and not trained on while it has these samples:
            it is drawn anew in a task that gives a client others.
        epsilon: probability that others are drawn at random in round 0; it falls by decay each round.
        decay: of epsilon.
        norm: of the distance between models, running statistics of BatchNorm aside.
        fallback: where a client begins if no model does better: at its last one (keep), or at the one before its last
            local training (before), as the official code does.
        num_clients: N, of the run.
    """

    models: Count = 5
    held_out: HeldOut = 0.2
    epsilon: UnitInterval = 0.3
    decay: NonNegative = 0.05
    norm: Literal["l2", "l1"] = "l2"
    fallback: Literal["keep", "before"] = "keep"
    num_clients: Count = 1

    broadcast: ClassVar[tuple[str, ...]] = ("theta", "models", "known", "affinity")
    neutral: ClassVar[Mapping[str, float] | None] = None

    @property
    def share_held_out(self) -> float:
        """As asked for."""
        return self.held_out

    def init(self) -> Tensors:
        """The server keeps the last model of every client [N, P], and what each said of the others' [N, N]."""
        theta, num = self.model.init(), self.num_clients
        models, affinity = theta.repeat(num, 1), theta.new_zeros(num, num)
        return {"theta": theta, "models": models, "known": theta.new_zeros(num), "affinity": affinity}

    def init_client(self) -> Tensors:
        """The model before the last local training."""
        return {"before": self.model.init()}

    def sent_bytes(self, server: Tensors, in_round: Round) -> int:
        """Others' models, as many as are asked for as soon as there are any; while few have trained, a bound."""
        return server["theta"].nbytes * (min(self.models, self.num_clients) - 1 if in_round.previous >= 0 else 1)

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Eq. 3 and 4 on the held-out samples, then local training on the others."""
        (judges, rest), chosen = group.split(self.held_out), self.chosen(group, server)
        before = self.received(group, memory["before"])
        loss, moved, positive = self.judged(judges, before), torch.zeros_like(before), torch.zeros_like(group.n)
        gains = []
        for others in chosen.unbind(1):
            other = self.received(group, server["models"][others])
            gap, known = other - before, server["known"][others]
            distance = self._length(gap) * known
            # who moved all the way to another's model is a rounding beside it, and a quotient of roundings is no gain
            apart = distance > 4 * torch.finfo(gap.dtype).eps * self._length(other)
            gain = torch.where(apart, (loss - self.judged(judges, other)) / distance, 0)
            moved, positive = moved + gain.clamp_min(0)[:, None] * gap, positive + gain.clamp_min(0)
            gains.append(gain)
        own = server["models"][chosen[:, 0]] if self.fallback == "keep" else before
        start = torch.where(positive[:, None] > 0, before + moved / positive.clamp_min(1e-30)[:, None], own)
        trained = rest.train(start, self, {}, {})
        said = loss.new_zeros(group.lanes, self.num_clients).scatter(1, chosen, torch.stack(gains, 1))
        return Upload(
            self.average(rest, server, trained),
            trained.theta,
            memory={"before": start},
            sent={"model": trained.theta, "gains": torch.stack(gains, 1)},
            rows={"model": trained.theta, "gains": said},
        )

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> Tensor:
        """Its last one, which the server keeps."""
        return server["models"][client]

    def _length(self, vectors: Tensor) -> Tensor:
        """Norms [G] of vectors [G, P]."""
        parameters = self.model.take(vectors, self.model.others(self.model.running))
        length: Tensor = torch.linalg.vector_norm(alike(parameters), 1 if self.norm == "l1" else 2, dim=1)
        return length

    def judged(self, judges: Group, theta: Tensor) -> Tensor:
        """Mean loss [G] of models [G, P] on the held-out samples; 0 where there are none."""

        def nll(theta: Tensor, batch: Batch) -> Tensors:
            return {"nll": (self.model.nll(theta, batch.x, batch.y, batch.allowed) * batch.mask).sum()}

        return sum_over(judges, nll, theta)["nll"] / judges.n.clamp_min(1)

    def chosen(self, group: Group, server: Tensors) -> Tensor:
        """Ids [G, M]: the client itself, then the others of the highest affinity, or any at random."""
        noise = uniform(group.keys, 0, [self.num_clients + 1])
        explores = noise[:, :1] < self.epsilon - self.decay * group.round
        score = torch.where(explores, noise[:, 1:].to(server["affinity"]), server["affinity"][group.ids])
        score = torch.where(server["known"] > 0, score, -torch.inf)
        score = torch.where(one_hot(group.ids, self.num_clients), torch.inf, score)
        return score.argsort(dim=1, descending=True, stable=True)[:, : self.models]

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """Keep the cohort's models and what it said; theta is the plain average, the generic model."""
        kept = {
            "models": server["models"].index_copy(0, info.cohort, total.rows["model"]),
            "known": server["known"].index_fill(0, info.cohort, 1),
            "affinity": server["affinity"].index_add(0, info.cohort, total.rows["gains"]),
        }
        return super().server_update(server, total, info) | kept
