"""FedAvg: McMahan et al., Communication-Efficient Learning of Deep Networks from Decentralized Data, AISTATS 2017.

arXiv 1602.05629, Algorithm 1. This class is the protocol: another method overrides only what its paper changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from fl_ddp.bounds import Positive, check_fields
from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.guards import of_one_client
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.no_model import NO_MODEL
from fl_ddp.protocol import Batch, Info, Leaves, Quadratic, Round, Tensors, Term, Total, Trained, Upload


@dataclass(frozen=True)
class FedAvg:
    """Average the clients' models, weighted by their numbers of samples.

    Attributes:
        model: the network as functions of theta.
        weights: of the clients in the average: data (numbers of samples) or uniform.
        server_lr: step of the server along the average change; 1 takes the average model.
    """

    model: FlatModel = NO_MODEL
    weights: Literal["data", "uniform"] = "data"
    server_lr: Positive = 1.0

    broadcast: ClassVar[tuple[str, ...]] = ("theta",)
    """Names of the server's tensors that a client sees."""
    neutral: ClassVar[Mapping[str, float] | None] = {}
    """Coefficients at which the method is FedAvg with the same `weights`, bit for bit; None where there are no such."""
    coefficients: ClassVar[tuple[str, ...]] = ()
    """Numbers that are tensors [] in loss, correct, penalty, priors, project and track, so that others compile no other
    step: these may compute with them, and neither branch on one nor make a number of it. A subclass names its own."""
    counts_sgd_steps: ClassVar[bool] = False
    """Whether it takes local changes apart as steps of SGD, by Group.momentum_steps or the plan's lr."""
    leaves_beside: ClassVar[int] = 0
    """How many of the last leaves are a model of their own that trains along: what clips gradients takes them apart."""
    shares_samples: ClassVar[bool] = False
    """Whether everyone is given one training sample of each class before the first round; see shared_inputs()."""

    trains_on_server: ClassVar[bool] = False
    """Whether the server trains after its update; see server_train()."""
    reports: ClassVar[tuple[str, ...]] = ()
    """Names of sums of an upload that are one number of each client: their means, by the weights of their terms, are
    columns of metrics.csv, and they are not sent, unless `Upload.sent` has them."""

    def __post_init__(self) -> None:
        check_fields(self, "--method.")

    @property
    def proxy(self) -> float:
        """Share of the clients' training samples that the server has copies of."""
        return 0.0

    @property
    def proxy_batch(self) -> int:
        """Samples in a batch of the server's."""
        return 64

    @property
    def proxy_everyone(self) -> bool:
        """Whether samples of clients that are not enrolled in a task are among the server's, too."""
        return False

    @property
    def proxy_whole(self) -> bool:
        """Whether the server's samples are one client's, or cut into batches that are dealt to all ranks."""
        return False

    @property
    def share_held_out(self) -> float:
        """Share of a client's samples that its training leaves out, by Group.split."""
        return 0.0

    @property
    def keeps_optimizer(self) -> bool:
        """Whether --optimizer.keep is possible: a round trains theta once, and nothing counts on a momentum of zero."""
        return True

    @property
    def needs_classes(self) -> bool:
        """Whether it reckons with classes or their probabilities, which only --loss cross_entropy has."""
        return self.shares_samples

    def refuse(self, plan: Plan, told_task: bool) -> None:
        """Refuse options that the method has no rule for, once, before a run has begun.

        Args:
            plan: of local training in the first round.
            told_task: whether samples are classified among the labels of their own task alone.

        Raises:
            ConfigError: there is such an option.
        """

    def init(self) -> Tensors:
        """The server's state before the first round."""
        return {"theta": self.model.init()}

    def init_client(self) -> Tensors:
        """One client's memory before it first takes part; empty for methods without client memory."""
        return {}

    def sent(self, in_round: Round) -> tuple[str, ...]:
        """Which of the broadcast tensors travel in a round; of the others a client has what init() gives."""
        return self.broadcast

    def sent_bytes(self, server: Tensors, in_round: Round) -> int:
        """Bytes that travel to one client in a round."""
        return sum(server[name].nbytes for name in self.sent(in_round))

    def given_bytes(self, server: Tensors) -> int:
        """Bytes that each client is given once, before the first round in which it may take part."""
        return 0

    def leaves(self, vector: Tensor) -> Leaves:
        """Split a parameter vector [..., P] into leaves; a tensor whose last dimension is P is a parameter vector."""
        return self.model.leaves(vector)

    @property
    def running(self) -> tuple[int, ...]:
        """Which of the leaves are running statistics of BatchNorm: all of the model's, or none."""
        return self.model.running

    def loss(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> Tensor:
        """One client's loss on a batch []; server and mine hold leaves."""
        return self.model.loss(theta, batch)

    def gradient(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> tuple[Leaves, Tensor]:
        """Gradient of the loss in all leaves, next values in place of running statistics; and the loss."""
        return self.model.gradient(of_one_client.loss(self.loss), self.running, theta, batch, server, mine)

    def correct(self, g: Tensor, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """Change the gradient coordinate by coordinate; called once per leaf."""
        return g

    def penalty(self, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """A prior without data [], a sum over coordinates; called once per leaf, its gradient joins the loss's."""
        return theta.new_zeros(())

    def priors(self, server: Tensors, mine: Tensors) -> tuple[Quadratic, ...]:
        """Quadratic priors of one leaf; called once per leaf."""
        return ()

    def project(self, new: Tensor, old: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """Where one leaf's coordinates may be after a step from old to new; called once per leaf."""
        return new

    def track(self, trace: Tensors, old: Tensor, new: Tensor, g: Tensor, step: Tensor) -> Tensors:
        """What is tracked after step number step [] from old to new, g the gradient of the loss; once per leaf."""
        return trace

    def average(self, group: Group, server: Tensors, trained: Trained) -> dict[str, Tensor | Term]:
        """The sums of a weighted mean of the clients' changes."""
        weight = group.n if self.weights == "data" else group.real
        delta = Term(trained.theta, minus=server["theta"], weight=weight)
        sums: dict[str, Tensor | Term] = {"weight": weight, "delta": delta, "loss": Term(trained.loss, weight=weight)}
        if running := self.model.running:
            own, before = (self.model.take(theta, running) for theta in (trained.theta, server["theta"]))
            sums["statistics"] = Term(own, minus=before, weight=weight)
        return sums

    def received(self, group: Group, theta: Tensor) -> Tensor:
        """The received model [P] as each client has it: [G, P] with the running statistics that it keeps, or [P]."""
        own = group.carried.statistics
        return theta if own is None else self.model.put(theta.expand(group.lanes, -1), self.model.running, own)

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        """Train a group of clients from the received state and say what leaves them and what stays."""
        trained = group.train(server["theta"], self, server, memory)
        return Upload(self.average(group, server, trained), trained.theta)

    def own_model(self, server: Tensors, memory: Tensors, client: int) -> Tensor | None:
        """A client's own model [V] before it trains, of the server's state and its memory; None if it keeps none."""
        return None

    def predict(self, theta: Tensor, x: Tensor) -> Tensor:
        """Logits [B, C] of a client's own model, theta [V] as its upload has it, for inputs x [B, ...]."""
        return self.model.logits(theta, x)

    def mean_delta(self, total: Total) -> Tensor:
        """The weighted mean change of the cohort's models [P], float64."""
        return total.sums["delta"] / total.sums["weight"]

    def measures(self, round_index: int) -> bool:
        """Whether the server measures something on its own samples before a round."""
        return False

    def measure(self, group: Group, server: Tensors) -> dict[str, Tensor | Term]:
        """What is summed over the server's samples, which come as clients of a group."""
        raise NotImplementedError

    def measured(self, server: Tensors, total: Total) -> Tensors:
        """The server's state with what it has measured."""
        raise NotImplementedError

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        """The server's state after the round; the change is applied in float64 and rounded once."""
        return server | {"theta": (server["theta"] + self.server_lr * self.mean_delta(total)).to(server["theta"].dtype)}

    def server_train(self, group: Group, server: Tensors, total: Total, info: Info) -> Tensors:
        """The server's state after training of its own; a group of one lane without samples, for Group.over().

        The sums and rows of the cohort are as server_update() left them.
        """
        raise NotImplementedError

    def end_of_task(self, server: Tensors, task: int) -> Tensors:
        """The server's state when the last round of a task, from 0, is over; the last task has no end."""
        return server
