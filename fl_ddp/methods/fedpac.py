"""FedPAC: Xu, Tong, Huang, Personalized Federated Learning with Feature Alignment and Classifier Collaboration.

ICLR 2023, arXiv 2306.11867, Algorithm 1 and Eq. 7-11. As in the official code, h_{k,c} is class share times class mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from fl_ddp.bounds import BelowOne, Count, NonNegative, Positive
from fl_ddp.clients.own_samples import sum_over
from fl_ddp.clients.simplex import least_on_simplex
from fl_ddp.engine.group import Group
from fl_ddp.losses.criterion import mean_over
from fl_ddp.losses.cross_entropy import one_hot
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Batch, Info, Leaves, Round, Tensors, Total, Upload, alike


@dataclass(frozen=True)
class FedPAC(FedAvg):
    """A common body whose features are drawn to global class means, and a head for each client, mixed from all heads.

    Attributes:
        lam: strength of the pull to the class means, from round 1 on.
        head_lr: learning rate of the head, which is trained first, the body fixed.
        head_epochs: its passes.
        least: weights of heads below this are cut, unless all are.
        num_clients: N, of the run.
    """

    lam: NonNegative = 1.0
    head_lr: Positive = 0.1
    head_epochs: Positive = 1.0
    least: BelowOne = 1e-3
    num_clients: Count = 1

    broadcast: ClassVar[tuple[str, ...]] = ("theta", "heads", "means", "known")
    neutral: ClassVar[Mapping[str, float] | None] = None
    keeps_optimizer: ClassVar[bool] = False

    needs_classes = True  # see FedAvg

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model.require_head("FedPAC")

    def init(self) -> Tensors:
        """A head for every client [N, H]; no class mean [C, D] is known."""
        theta, num_classes = self.model.init(), self.model.num_classes
        means = theta.new_zeros(num_classes, self.model.num_features)
        heads = self.model.take(theta, self.model.head).repeat(self.num_clients, 1)
        return {"theta": theta, "heads": heads, "means": means, "known": theta.new_zeros(num_classes)}

    def sent_bytes(self, server: Tensors, in_round: Round) -> int:
        """A body with one head, and the class means once somebody has trained."""
        return server["theta"].nbytes + (server["means"].nbytes if in_round.previous >= 0 else 0)

    def loss(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> Tensor:
        """Cross-entropy, and the features' distance from the means of their classes (Eq. 7)."""
        z, logits = self.model.run(theta, batch)
        distance = (z - mine["means"][batch.y]).square().mean(-1)
        return mean_over(batch.mask, self.model.losses(logits, batch.y) + server["pull"] * distance)

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Statistics at the received body; then the head, then the body is trained."""
        theta, head, n = server["theta"], self.model.head, group.n.clamp_min(1)
        seen = sum_over(group, self.features_by_class, self.received(group, theta))
        h = seen["z"] / n[:, None, None]
        variance = (seen["square"] / n - alike(h.square().flatten(1)).sum(-1)) / n
        own = seen["z"] / seen["count"].clamp_min(1)[..., None]
        means = {"means": torch.where(server["known"][:, None] > 0, server["means"], own)}
        start = self.model.put(theta, head, server["heads"][group.ids])
        plan = replace(group.plan, epochs=self.head_epochs, steps=None, lr=self.head_lr)
        first = group.train(start, self, {"pull": theta.new_zeros(())}, means, plan=plan, fixed=self.model.body)
        pull = theta.new_full((), 0.0 if group.previous < 0 else self.lam)
        trained = group.train(first.theta, self, {"pull": pull}, means, draw=1, fixed=head)
        after = sum_over(group, self.features_by_class, trained.theta)
        sums = self.average(group, server, trained) | {"count": after["count"], "z": after["z"]}
        rows = {"head": self.model.take(trained.theta, head), "h": h, "variance": variance}
        sent = {"theta": trained.theta, "h": h, "variance": variance, "z": after["z"], "count": after["count"]}
        return Upload(sums, trained.theta, sent=sent, rows=rows)

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> Tensor:
        """The server's body and the head that was mixed for it."""
        return self.model.put(server["theta"], self.model.head, server["heads"][client])

    def features_by_class(self, theta: Tensor, batch: Batch) -> Tensors:
        """Number [C] and sum [C, D] of the features of each class, and the sum of all their squares []."""
        z = self.model.features(theta, batch.x)
        label = one_hot(batch.y, self.model.num_classes) * batch.mask[:, None]
        return {"count": label.sum(0), "z": label.mT @ z, "square": (z.square() * batch.mask[:, None]).sum()}

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """FedAvg, the class means, and for each client of the cohort the best mixture of its heads (Eq. 10-11)."""
        count = total.sums["count"]
        means = (total.sums["z"] / count.clamp_min(1)[:, None]).to(server["means"].dtype)
        kept = {
            "heads": server["heads"].index_copy(0, info.cohort, self.mixed(total.rows)),
            "means": torch.where(count[:, None] > 0, means, server["means"]),
            "known": torch.maximum(server["known"], (count > 0).to(server["known"])),
        }
        return super().server_update(server, total, info) | kept

    def mixed(self, rows: Mapping[str, Tensor]) -> Tensor:
        """Heads [cohort, H], each the mixture w of all that has the least w' (diag(V) + D^k) w."""
        h, heads = rows["h"].double().flatten(1), rows["head"].double()
        # <h_k - h_i, h_k - h_j> from products of rows, never [D, D]
        gram, own = h @ h.mT, []
        for k in range(len(h)):
            form = rows["variance"].double().diag() + gram[k, k] - gram[k][:, None] - gram[k] + gram
            w = torch.from_numpy(least_on_simplex(form.cpu().numpy())).to(heads)
            w = torch.where((w < self.least) & (w.amax() >= self.least), 0, w)
            own.append((w / w.sum()) @ heads)
        return torch.stack(own).to(rows["head"].dtype)
