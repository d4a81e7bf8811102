"""FedAvg (McMahan et al. 2017): average the clients' models."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from local_training import Client, Model, State, local_sgd
from parameters import Parameters, summed
from torch import Tensor

Logits = Callable[[Tensor], Tensor]
"""Of a model for inputs, [B, C] for x [B, ...]."""


class When(NamedTuple):
    """A round t of a task, both from 0, and whether anybody has trained in a round before it."""

    t: int
    task: int
    anybody: bool


@dataclass(frozen=True)
class Update:
    """What comes of a client's local training.

    Attributes:
        client: who trained.
        theta: its model theta^k.
        loss: its mean training loss.
        memory: what it remembers until it next takes part.
        sent: what it sends beside theta^k.
        predict: logits of its own, personal model for inputs, if that is not theta^k.
    """

    client: Client
    theta: Parameters
    loss: float
    memory: State = field(default_factory=dict)
    sent: State = field(default_factory=dict)
    predict: Logits | None = None

    def personal(self, x: Tensor) -> Tensor:
        """Logits of its personal model, [B, C] for x [B, ...]."""
        return self.predict(x) if self.predict else self.client.model.logits(self.theta, x)


@dataclass(frozen=True)
class FedAvg:
    """theta <- theta_t + server_lr sum_k p_k (theta^k - theta_t).

    Attributes:
        weights: data, p_k = n_k / sum_j n_j over the cohort, or uniform, p_k = 1 / m.
        server_lr: step of the server along the average change.
    """

    weights: str = "data"
    server_lr: float = 1.0

    def server_start(self, theta: Parameters, clients: int) -> State:
        """The server's state before the first round of so many clients."""
        return {"theta": theta}

    def client_start(self, theta: Parameters) -> State:
        """What a client remembers before it first takes part."""
        return {}

    @property
    def server_batch(self) -> int:
        """Samples of a batch of the server's own; 0 for a server without samples."""
        return 0

    @property
    def server_epochs(self) -> float:
        """Passes of the server over its own samples."""
        return 1.0

    def server_measure(self, server: State, proxy: Client | None, t: int) -> State:
        """The server's state after what it does before the clients of round t = 0, 1, ... train."""
        return server

    def had(self, model: Model, server: State, memory: State, k: int) -> Logits:
        """Logits of the model that client k has before it trains: the received one, or its own if it keeps one."""
        return partial(model.logits, server["theta"])

    def client_update(self, client: Client, server: State, memory: State, t: int) -> Update:
        """Local training in round t."""
        trained = local_sgd(client, server["theta"])
        return Update(client, trained.theta, trained.loss)

    def server_update(self, server: State, updates: Sequence[Update], clients: int, t: int) -> State:
        """The server's state after round t.

        Args:
            server: its state before.
            updates: of the cohort.
            clients: N, the number of all clients.
            t: the round.
        """
        return server | {"theta": self.averaged(server["theta"], updates)}

    def server_train(self, server: State, updates: Sequence[Update], trainer: Client, t: int) -> State:
        """The server's state after training of its own, for which it has orders and random numbers as a client has."""
        return server

    def task_ended(self, server: State, task: int) -> State:
        """The server's state when a task is over."""
        return server

    def shares(self, updates: Sequence[Update]) -> list[float]:
        """p_k of each client of the cohort; they sum to 1."""
        sizes = [update.client.n if self.weights == "data" else 1 for update in updates]
        return [size / sum(sizes) for size in sizes]

    def averaged(
        self, theta_t: Parameters, updates: Sequence[Update], changes: Sequence[Parameters] | None = None
    ) -> Parameters:
        """theta_t moved along the average change of the clients' models, or of what they say is their change."""
        own = changes or [update.theta - theta_t for update in updates]
        mean = summed(p_k * change for p_k, change in zip(self.shares(updates), own, strict=True))
        return theta_t + self.server_lr * mean

    def train_loss(self, updates: Sequence[Update]) -> float:
        """The mean loss of the clients that trained, averaged as their models are; nan if none did."""
        # as CONTRIBUTING.md has it: the sums named weight and loss, both from the average, give the loss reported
        trained = [(p_k, u.loss) for p_k, u in zip(self.shares(updates), updates, strict=True) if u.client.steps]
        return sum(p_k * loss for p_k, loss in trained) / sum(p_k for p_k, _ in trained) if trained else math.nan

    def stored(self, server: State) -> State:
        """The server's state as a checkpoint holds it."""
        return server

    def bytes_down(self, server: State, width: int, when: When) -> int:
        """What a client receives in a round, where a number takes `width` bytes: the model, 1 P."""
        return server["theta"].count() * width

    def bytes_given(self, theta: Parameters, width: int) -> int:
        """What a client is given once, before the first round in which it may take part."""
        return 0

    @property
    def gives_samples(self) -> bool:
        """Whether every client is given a sample of each class before a task's first round."""
        return False

    def bytes_up(self, theta: Parameters, width: int, *, ends_task: bool = False) -> int:
        """What a client sends: the model, 1 P, and two numbers, its n_k and its loss."""
        return (theta.count() + 2) * width
