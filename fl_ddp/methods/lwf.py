"""LwF: Li and Hoiem, Learning without Forgetting, ECCV 2016.

arXiv 1606.09282, Eq. 1-4, in a federation, as papers on FedLwF or FLwF have it: clients keep what the server's model at
the end of the last task thinks of the classes that earlier tasks had. One head stands for the heads of all tasks: with
`classes: new` a sample of a new class is classified among those of the present task, as the paper's new head does (and
FACIL's and PyCIL's), so that outputs of tasks to come stay as they are. With `--running_statistics local` a client sees
the last task's model through the statistics that it has now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from fl_ddp.bounds import NonNegative, Positive
from fl_ddp.clients.own_samples import class_counts, task_classes
from fl_ddp.engine.group import Group
from fl_ddp.losses.criterion import mean_over
from fl_ddp.losses.cross_entropy import among, one_hot
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Batch, Info, Leaves, Round, Tensors, Total, Upload


@dataclass(frozen=True)
class LwF(FedAvg):
    """FedAvg whose clients' models keep the opinion that the last task's end had of the classes of earlier tasks.

    Attributes:
        lam: weight of the distillation, the paper's lambda_o; nothing in the first task.
        tau: its temperature.
        heads: one softmax over all classes of earlier tasks in the distillation, as in FACIL and PyCIL; or each, one
            over the classes that each of these tasks brought, whose losses are summed, as in the paper. A task that
            brought a single class then keeps nothing of it, and a sample costs the square of the number of classes.
        classes: among which a sample of a new class is classified in training: new, those of the present task that no
            earlier one had, of which a single one teaches nothing; or all. One of a class that earlier tasks had, kept
            or come again, is classified among all so far, or all.
    """

    lam: NonNegative = 1.0
    tau: Positive = 2.0
    heads: Literal["one", "each"] = "one"
    classes: Literal["new", "all"] = "new"

    broadcast: ClassVar[tuple[str, ...]] = ("theta", "old", "known")
    neutral: ClassVar[Mapping[str, float] | None] = None
    coefficients: ClassVar[tuple[str, ...]] = ("lam", "tau")

    needs_classes = True  # see FedAvg

    def init(self) -> Tensors:
        """No class was seen, nor is known; with a head for each task `known` has the task, from 1, that one came in."""
        theta = self.model.init()
        none = torch.zeros(self.model.num_classes, dtype=torch.bool, device=theta.device)
        known = none.short() if self.heads == "each" else none.clone()
        return {"theta": theta, "old": theta.clone(), "known": known, "seen": none}

    def sent(self, in_round: Round) -> tuple[str, ...]:
        """In the first task there is no model of an earlier one."""
        return self.broadcast if in_round.task > 0 else ("theta",)

    def loss(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> Tensor:
        """Eq. 1-4: cross-entropy + lam KL(old || local) over the known classes, at the temperature."""
        known, logits = server["known"] > 0, self.model.logits(theta, batch.x, batch.key, batch.mask)
        new = server["classes"] & ~known
        old = self.model.logits(mine.get("old", server["old"]), batch.x)
        p, q = (self._opinion(z / self.tau, server["known"]) for z in (old, logits))
        divergence = torch.where(known, p.exp() * (p - q), 0).sum(-1)
        label = one_hot(batch.y, self.model.num_classes)
        head = label | new | (known & (label & known).any(-1, keepdim=True))
        own = among(logits, head) if self.classes == "new" else logits
        losses = self.model.losses(among(own, batch.allowed), batch.y)
        return mean_over(batch.mask, losses + self.lam * divergence)

    def _opinion(self, logits: Tensor, known: Tensor) -> Tensor:
        """Log-probabilities [batch, C] of the known classes, in each task's softmax or in one for all."""
        if self.heads == "one":
            return among(logits, known > 0).log_softmax(-1)
        together = known[:, None] == known  # [C, C]: came in one task
        return logits - among(logits[..., None, :], together).logsumexp(-1)

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Local training beside the last task's model; the server hears how many samples of each class there are."""
        old = self.received(group, server["old"])
        received = {**server, "classes": task_classes(group)}
        trained = group.train(server["theta"], self, received, {"old": old} if old.ndim > 1 else {})
        counts = class_counts(group, self.model.num_classes)
        return Upload(self.average(group, server, trained) | {"counts": counts}, trained.theta)

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """FedAvg, and which classes somebody has had samples of."""
        new = super().server_update(server, total, info)
        return new | {"seen": server["seen"] | (total.sums["counts"] > 0)}

    def end_of_task(self, server: Tensors, task: int) -> Tensors:
        """The model is what the next task's clients look at, for the classes so far."""
        came = server["seen"] & (server["known"] == 0)
        known = server["known"].masked_fill(came, task + 1 if self.heads == "each" else 1)
        return server | {"old": server["theta"].clone(), "known": known}
