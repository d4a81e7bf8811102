"""FIL-VER (Park et al. 2021): FedAvg of a classifier on embeddings, with rehearsal of earlier ones."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import NamedTuple

import torch
from fedavg import FedAvg, Update, When
from local_training import Client, State, local_sgd
from parameters import Parameters, alone
from torch import Tensor

REHEARSED, SENT, DRAWN, SAMPLED = range(4)
"""Which of a client's, or the server's, random numbers."""


class Example(NamedTuple):
    """A labelled embedding of a task, mu | sigma or a draw of it; what stays in a bank has the highest priority."""

    x: Tensor
    y: int
    task: int
    priority: float


Bank = list[Example | None]


def best(rows: Bank, size: int) -> Bank:
    """As many rows as a bank has room for."""
    real = sorted((row for row in rows if row), key=lambda row: -row.priority)[:size]
    return [*real, *[None] * (size - len(real))]


def evenly(rows: Bank, size: int) -> Bank:
    """As many of each class of each task: the first of each, the second of each, and so on."""
    ordered, seen, turns = [row for row in best(rows, len(rows)) if row], list[tuple[int, int]](), list[int]()
    for row in ordered:
        turns.append(seen.count((row.task, row.y)))
        seen.append((row.task, row.y))
    real = [row for _, row in sorted(zip(turns, ordered, strict=True), key=lambda each: each[0])][:size]
    return [*real, *[None] * (size - len(real))]


@dataclass(frozen=True)
class FilVer(FedAvg):
    """See the program's options."""

    beta: float = 1e-3
    pretrain_epochs: float = 5.0
    pretrain_lr: float | None = None
    pretrain_on: str = "enrolled"
    start: str = "pretrained"
    share: str = "sampled"
    send: int = 50
    rehearsal: float = 0.1
    remember: int = 1000
    store: int = 4000
    sst: int = 4000
    sst_lr: float | None = None

    @property
    def server_batch(self) -> int:
        """Of the encoder's training."""
        return 64

    @property
    def server_epochs(self) -> float:
        """Of the encoder's training."""
        return self.pretrain_epochs

    def server_start(self, theta: Parameters, clients: int) -> State:
        """An empty bank."""
        d = self.size(theta) * (2 if self.share == "stats" else 1)
        return {"theta": theta} | as_state([None] * self.store, d)

    def client_start(self, theta: Parameters) -> State:
        """An empty bank."""
        return as_state([None] * self.remember, 2 * self.size(theta))

    def size(self, theta: Parameters) -> int:
        """D."""
        return theta["encoder.mu.bias"].numel()

    def server_measure(self, server: State, proxy: Client | None, t: int) -> State:
        """Cross-entropy of a draw and beta KL, over all samples of the first task."""
        if t > 0 or not self.pretrain_epochs:
            return server
        assert proxy is not None
        model, step = proxy.model, count()

        def objective(theta: Parameters, x: Tensor, y: Tensor) -> Tensor:
            mu, log_sigma = model.call("encoder", theta, x)
            z = mu + log_sigma.exp() * proxy.noises(next(step), len(y), mu.shape[1])
            loss = model.criterion(model.call("classifier", theta, z)[1], y)
            if log_sigma[0, 0] == -math.inf:
                return loss
            kl = ((mu.square() + (2 * log_sigma).exp() - 1 - 2 * log_sigma) / 2).sum(1).mean()
            return loss + self.beta * kl

        first = server["theta"]
        theta = local_sgd(replace(proxy, lr=self.pretrain_lr or proxy.lr), first, objective=objective).theta
        if self.start == "fresh":
            theta = theta.having(first.only([name for name in first if name.startswith("classifier")]))
        return server | {"theta": theta}

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """Local training on embeddings of the client's samples and of some that it remembers."""
        theta_t = server["theta"]
        mu, log_sigma = (part.detach() for part in client.model.call("encoder", theta_t, client.x))
        noise = client.task_draws(REHEARSED, client.n)
        pairs = enumerate(zip(torch.cat([mu, log_sigma.exp()], 1), client.y.tolist(), strict=True))
        present = [Example(x, y, client.task, float(noise[i])) for i, (x, y) in pairs]
        earlier = [row if row and row.task != client.task else None for row in of_state(memory)]
        old = first_of(earlier, client.draws(REHEARSED, self.remember), math.floor(self.rehearsal * client.n))
        trained, loss = self.trained(client, theta_t, [*present, *old], client.orders, None)
        some = first_of(present, client.draws(SENT, client.n), self.send)
        if self.share == "sampled":
            d = mu.shape[1]
            z = client.normals(SAMPLED, self.send, d)
            some = [row._replace(x=row.x[:d] + row.x[d:] * z[i]) for i, row in enumerate(some)]
        sent = some[0].x if some else torch.zeros(0)
        kept = as_state(best([*earlier, *present], self.remember), 2 * mu.shape[1])
        return Update(client, trained, loss, kept, {"rows": alone(sent), "examples": Examples(some)})

    def trained(
        self,
        client: Client,
        theta: Parameters,
        rows: Sequence[Example],
        orders: Callable[..., Sequence[Sequence[int]]],
        lr: float | None,
        epochs: float | None = None,
    ) -> tuple[Parameters, float]:
        """The classifier after training on rows, and its mean loss."""
        if not rows:
            return theta, 0.0
        d, model, step = self.size(theta), client.model, count()

        def objective(theta: Parameters, x: Tensor, y: Tensor) -> Tensor:
            noise = client.noises(next(step), len(y), d)
            z = x if x.shape[1] == d else x[:, :d] + x[:, d:] * noise
            return model.criterion(model.call("classifier", theta, z)[1], y)

        on = replace(client, x=torch.stack([row.x for row in rows]), y=torch.tensor([row.y for row in rows]))
        fixed = [name for name in theta if name.startswith("encoder")]
        batches = orders(len(rows), 0, epochs)
        found = local_sgd(on, theta, objective=objective, batches=batches, lr=lr, fixed=fixed)
        return found.theta, found.loss

    def server_train(self, server: State, updates: Sequence[Update], trainer: Client, t: int) -> State:
        """A pass over examples of the bank and those sent, as many of each class of each task, from all parts of it."""
        if not self.sst:
            return server
        bank = [*of_state(server), *self.sent(updates)]
        kinds = [(row.task, row.y) for row in bank if row]
        if not kinds:
            return server
        bounds, total = [], 0.0
        for row in bank:
            total += 1 / kinds.count((row.task, row.y)) if row else 0.0
            bounds.append(total)
        drawn = []
        for turn, u in enumerate(trainer.server_draws(DRAWN, self.sst).tolist()):
            place = next(i for i, bound in enumerate(bounds) if (turn + u) / self.sst * total < bound)
            drawn.append(bank[place])
        rows = [row for row in drawn if row]
        orders = partial(trainer.orders, short=True)
        theta, _ = self.trained(trainer, server["theta"], rows, orders, self.sst_lr, epochs=1.0)
        return server | {"theta": theta} | as_state(evenly(bank, self.store), server["x"][""].shape[1])

    def sent(self, updates: Sequence[Update]) -> Bank:
        """The examples that clients sent, which have a priority of the server's."""
        draws = updates[0].client.server_draws(SENT, len(updates) * self.send)
        came: Bank = []
        for place, update in enumerate(updates):
            for i, row in enumerate(update.sent["examples"].rows):  # type: ignore[attr-defined]
                came.append(row._replace(priority=float(draws[place * self.send + i])))
        return came

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """The classifier."""
        return self.classifier(server["theta"]) * width

    def bytes_given(self, theta: Parameters, width: int) -> int:
        """The encoder."""
        return (theta.count() - self.classifier(theta)) * width

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """The classifier, its n_k and its loss; embeddings and labels, which are long."""
        d = self.size(theta) * (2 if self.share == "stats" else 1)
        sent = self.send if self.sst else 0
        return (self.classifier(theta) + 2 + sent * d) * width + sent * 8

    def classifier(self, theta: Parameters) -> int:
        """Number of its parameters."""
        return theta.only([name for name in theta if name.startswith("classifier")]).count()


class Examples(Parameters):
    """What a client sends."""

    def __init__(self, rows: Sequence[Example]) -> None:
        super().__init__()
        self.rows = rows


def first_of(rows: Sequence[Example | None], noise: Tensor, most: int) -> list[Example]:
    """At most so many of the rows there are, in the order of their noise."""
    real = [(float(noise[i]), row) for i, row in enumerate(rows) if row]
    return [row for _, row in sorted(real, key=lambda each: each[0])][:most]


def as_state(bank: Bank, width: int) -> State:
    """A bank as a checkpoint holds it."""
    rows = [row or Example(torch.zeros(width), -1, -1, -1.0) for row in bank]
    columns = {
        "x": torch.stack([row.x.double() for row in rows]),
        "y": torch.tensor([float(row.y) for row in rows]),
        "task": torch.tensor([float(row.task) for row in rows]),
        "priority": torch.tensor([row.priority for row in rows], dtype=torch.float64),
    }
    return {name: alone(t.double()) for name, t in columns.items()}


def of_state(state: State) -> Bank:
    """The rows of a bank."""
    x, y, task, priority = (state[name][""] for name in ("x", "y", "task", "priority"))
    return [Example(x[i], int(y[i]), int(task[i]), float(priority[i])) if y[i] >= 0 else None for i in range(len(y))]
