"""FIL-VER: Park et al., Tackling Dynamics in Federated Incremental Learning with Variational Embedding Rehearsal, 2021.

arXiv 2110.09695, Algorithm 1, with rehearsal by clients as in its text. Before the first round the server trains the
encoder on the first task, after that it is frozen: a sample is the distribution mu | sigma of its embedding, from which
each step draws anew. Needs --model FilVerNet; with --model.embedding ebr sigma is 0, which is EBR. Sizes, rates and
which examples are kept are ours, the paper has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, vmap

from fl_ddp.bounds import Count, CountOrZero, NonNegative, Positive
from fl_ddp.clients.bank import balanced, bank_of, drawn, empty_bank, joined, merged, shared_out, without
from fl_ddp.clients.embeddings import distributions, divergence, sampled
from fl_ddp.clients.own_samples import labels, of_each
from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.seeds import uniform
from fl_ddp.errors import ConfigError
from fl_ddp.losses.criterion import mean_over
from fl_ddp.losses.cross_entropy import among
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.network.flat_model import Part
from fl_ddp.protocol import Batch, Info, Leaves, Round, Tensors, Term, Total, Upload

_REHEARSED, _SENT, _DRAWN, _SAMPLED = range(4)
"""Streams of uniform noise of a client's key, and of the server's; the last one of normal noise, which has two more."""


@dataclass(frozen=True)
class FilVer(FedAvg):
    """FedAvg of a classifier on embeddings, with rehearsal by clients and server-side training on what they send.

    Samples of earlier tasks that clients have by --stream.keep count as the present task's.

    Attributes:
        beta: weight of the KL divergence in the encoder's training.
        pretrain_epochs: passes over the first task's samples, in batches of 64.
        pretrain_lr: learning rate of that; of the clients' if not given.
        pretrain_on: whose samples these are: of the clients that are enrolled in the first task, or of all.
        start: where the classifier begins: pretrained, along with the encoder, or fresh.
        share: what clients send of a sample: sampled (a draw of its embedding), or stats (mu and sigma, of which the
            server draws in each step).
        send: samples that a client sends in a round, where the server trains on them.
        rehearsal: most examples of earlier tasks in a client's local training, as a share of its samples; 0 for none.
        remember: examples of earlier tasks, and of the present one, that a client keeps.
        store: examples that the server keeps, as many of each class of each task.
        sst: examples of server-side training in a round, as many of each class of each task; 0 for none.
        sst_lr: learning rate of that; of the clients' if not given.
    """

    beta: NonNegative = 1e-3
    pretrain_epochs: NonNegative = 5.0
    pretrain_lr: Positive | None = None
    pretrain_on: Literal["enrolled", "all"] = "enrolled"
    start: Literal["pretrained", "fresh"] = "pretrained"
    share: Literal["sampled", "stats"] = "sampled"
    send: Count = 50
    rehearsal: NonNegative = 0.1
    remember: Count = 1000
    store: Count = 4000
    sst: CountOrZero = 4000
    sst_lr: Positive | None = None

    neutral: ClassVar[Mapping[str, float] | None] = None
    keeps_optimizer: ClassVar[bool] = False
    trains_on_server: ClassVar[bool] = True
    proxy: ClassVar[float] = 1.0
    proxy_whole: ClassVar[bool] = True

    needs_classes = True  # see FedAvg

    def __post_init__(self) -> None:
        super().__post_init__()
        self.model.part("encoder")

    @property
    def proxy_everyone(self) -> bool:
        """As asked for."""
        return self.pretrain_on == "all"

    @property
    def part(self) -> Part:
        """The classifier's parameters."""
        return self.model.part("classifier")

    @property
    def size(self) -> int:
        """D, of an embedding: inputs of the classifier's first layer."""
        return self.model.shapes[self.part[0]][1]

    def init(self) -> Tensors:
        """The whole network, and an empty bank of what clients send."""
        theta = self.model.init()
        return {"theta": theta} | empty_bank(self.store, self.size * (1 + (self.share == "stats")), theta)

    def refuse(self, plan: Plan, told_task: bool) -> None:
        """Samples that are classified among the labels of their task: those rehearsed are of earlier ones."""
        if told_task:
            raise ConfigError("--stream.scenario", "task, but FilVer rehearses earlier ones", "class, seen or domain")

    def init_client(self) -> Tensors:
        """An empty bank of distributions."""
        return empty_bank(self.remember, 2 * self.size, self.model.init())

    def sent_bytes(self, server: Tensors, in_round: Round) -> int:
        """The classifier."""
        return self.model.take(server["theta"], self.part).nbytes

    def given_bytes(self, server: Tensors) -> int:
        """The encoder."""
        return server["theta"].nbytes - self.model.take(server["theta"], self.part).nbytes

    def measures(self, round_index: int) -> bool:
        """Before the first round; without passes over the samples the encoder stays random."""
        return round_index == 0 and self.pretrain_epochs > 0

    def measure(self, group: Group, server: Tensors) -> dict[str, Tensor | Term]:
        """Train encoder and classifier on the first task (Eq. 9)."""
        plan = replace(group.plan, epochs=self.pretrain_epochs, steps=None, lr=self.pretrain_lr or group.plan.lr)
        return {"theta": group.train(server["theta"], self, {}, {}, plan=plan).theta}

    def measured(self, server: Tensors, total: Total) -> Tensors:
        """What came of it; a fresh classifier is that of the initial network."""
        theta = total.sums["theta"].to(server["theta"].dtype)
        fresh = self.model.put(theta, self.part, self.model.take(self.model.init(), self.part))
        return server | {"theta": fresh if self.start == "fresh" else theta}

    def leaves(self, vector: Tensor) -> Leaves:
        """Of theta, or of the classifier's part of it."""
        return self.model.leaves(vector, None if vector.shape[-1] == self.model.num_params else self.part)

    def loss(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> Tensor:
        """Eq. 9 on images; where the classifier alone is trained, its first term on embeddings."""
        whole = len(theta) == len(self.model.shapes)
        embeddings = self.embed(theta, batch)["x"] if whole else batch.x
        logits = self.model.call("classifier", theta, sampled(embeddings, self.size, batch.key))[1]
        loss = self.model.losses(among(logits, batch.allowed), batch.y)
        return mean_over(batch.mask, loss + self.beta * divergence(embeddings) if whole and self.beta else loss)

    def embed(self, theta: Tensor | Leaves, batch: Batch) -> Tensors:
        """The distribution mu | sigma of each sample's embedding."""
        return {"x": distributions(*self.model.call("encoder", theta, batch.x))}

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Train the classifier on the present task and some of earlier ones; send some of the present."""
        theta, y = server["theta"], labels(group)
        w, x = self.model.take(theta, self.part), of_each(group, self.embed, theta, keep="embeddings")["x"]
        earlier, most = without(memory, memory["task"] == group.task), int(self.rehearsal * group.largest)
        old = drawn(earlier, uniform(group.keys, _REHEARSED, [self.remember]), most, (self.rehearsal * group.n).floor())
        mixed = group.over(torch.cat([x, old["x"]], 1), torch.cat([y, old["y"]], 1))
        trained = mixed.train(w, self, {}, {})
        present = bank_of(x, y, group.task, uniform(group.task_keys, _REHEARSED, [y.shape[1]]))
        some = drawn(present, uniform(group.keys, _SENT, [y.shape[1]]), self.send)
        draw = vmap(sampled, (0, None, 0, None))
        x = draw(some["x"], self.size, group.keys, _SAMPLED) if self.share == "sampled" else some["x"]
        sums, own = self.average(group, {"theta": w}, trained), self.model.put(theta, self.part, trained.theta)
        rows = {"x": x, "y": some["y"]} if self.sst else {}
        return Upload(sums, own, merged(earlier, present), rows=rows)

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """FedAvg of the classifiers (Eq. 1)."""
        w = super().server_update({"theta": self.model.take(server["theta"], self.part)}, total, info)["theta"]
        return server | {"theta": self.model.put(server["theta"], self.part, w)}

    def server_train(self, group: Group, server: Tensors, total: Total, info: Info) -> Tensors:
        """Server-side training of the classifier on what is stored and what came in the round, some of which stays."""
        if not self.sst:
            return server
        x, y = (total.rows[name].flatten(0, 1) for name in ("x", "y"))
        bank = joined(server, bank_of(x, y, info.task, uniform(info.key, _SENT, [len(y)])))
        some = balanced(bank, uniform(info.key, _DRAWN, [self.sst]), self.model.num_classes)
        own, w = group.over(some["x"][None], some["y"][None]), self.model.take(server["theta"], self.part)
        plan = replace(own.plan, epochs=1.0, steps=None, lr=self.sst_lr or own.plan.lr, drop_last=False)
        theta = self.model.put(server["theta"], self.part, own.train(w, self, {}, {}, plan=plan).theta[0])
        return server | shared_out(bank, self.store, self.model.num_classes) | {"theta": theta}
