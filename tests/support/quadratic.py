"""A federation whose rounds have closed forms, and rounds of a method as the engine plays them, on one rank.

Client k's loss is L_k(theta) = a_k / 2 (theta - b_k)^2 + s_k theta: a linear model of one weight on the input 1. All
samples of a client are alike, so an epoch of batches of one sample is as many full-batch steps as there are samples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pytest
import torch
from given import round_of_one_task
from torch import Tensor, nn

from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.seeds import torch_seed
from fl_ddp.engine.workplace import Workplace
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Batch, Counts, Indices, Info, Leaves, Tensors, Total
from fl_ddp.ranks.cohort_rows import CohortRows
from fl_ddp.ranks.exact_sum import CohortSum
from fl_ddp.ranks.memory import ClientMemory

Floats = npt.NDArray[np.float64]

# the federation Q of all closed forms
A, B = np.array([1.0, 2.0, 4.0]), np.array([0.0, 1.0, -1.0])
TAU = np.array([5, 3, 2])
P = TAU / TAU.sum()
THETA_0, LR = 2.0, 0.1
OPTIMUM = float((A * B).sum() / A.sum())
"""Where the mean of the clients' losses is least: sum a_k (theta - b_k) = 0."""

TOLERANCE = 1e-12
"""Values of order 1 after less than a thousand roundings of 2^-53, mostly contracted by the steps that follow."""

approx = partial(pytest.approx, rel=0, abs=TOLERANCE)


def descend(a: float, b: float, theta: float, steps: int) -> float:
    """The end of gradient descent on a / 2 (theta - b)^2, whose distance to b shrinks by 1 - lr a each step."""
    return b + (1 - LR * a) ** steps * (theta - b)


def local_models(theta: float, steps: Sequence[int] | Counts = TAU) -> Floats:
    """Where plain local training of Q's clients ends."""
    return np.array([descend(a, b, theta, t) for a, b, t in zip(A, B, steps, strict=True)])


class _Constant(nn.Module):
    """Its one weight, for any input."""

    def __init__(self, theta: float) -> None:
        super().__init__()
        self.linear = nn.Linear(1, 1, bias=False, dtype=torch.float64)
        nn.init.constant_(self.linear.weight, theta)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.linear(torch.ones_like(x[..., :1]))
        return out


class OneWeight(FlatModel):
    """The linear model of one weight with loss a / 2 (weight 1 - b)^2 + s weight 1; a sample is (a, b, s)."""

    def __init__(self, theta: float = THETA_0) -> None:
        super().__init__(_Constant(theta), 1, torch.ones(1, 3, dtype=torch.float64))

    def loss(self, theta: Tensor | Leaves, batch: Batch) -> Tensor:
        """Mean loss over a batch's real samples."""
        a, b, slope = batch.x.unbind(-1)
        out = self.logits(theta, batch.x)[:, 0]
        return ((a / 2 * (out - b).square() + slope * out) * batch.mask).sum() / batch.mask.sum().clamp_min(1)


@dataclass(frozen=True)
class Clients:
    """The training set and each client's part of it."""

    samples: Samples
    parts: list[Indices]


def alike(features: Tensor, counts: Sequence[int] | Counts) -> Clients:
    """Clients [K] with counts [K] copies each of their own features [K, ...]."""
    x = features.repeat_interleave(torch.tensor(counts), 0)
    samples = Samples(x, torch.zeros(len(x), dtype=torch.int64))
    return Clients(samples, np.split(np.arange(len(x)), np.cumsum(counts)[:-1]))


def quadratic(
    a: Sequence[float] | Floats = A,
    b: Sequence[float] | Floats = B,
    slope: Sequence[float] = (0.0, 0.0, 0.0),
    counts: Sequence[int] | Counts = TAU,
) -> Clients:
    """The federation Q, or one like it."""
    return alike(torch.tensor(np.stack([a, b, slope], 1), dtype=torch.float64), counts)


def linear(slope: Sequence[float], counts: Sequence[int] | Counts = TAU) -> Clients:
    """Clients with losses slope_k theta, whose gradients are constant."""
    return quadratic(np.zeros(len(slope)), np.zeros(len(slope)), slope, counts)


def epoch_of_single_samples(momentum: float = 0.0) -> Plan:
    """One epoch with batches of one sample: TAU local steps on Q."""
    return Plan(batch_size=1, epochs=1, steps=None, lr=LR, momentum=momentum)


def steps(count: int, lr: float = LR, momentum: float = 0.0) -> Plan:
    """The same number of local steps for every client."""
    return Plan(batch_size=1, epochs=None, steps=count, lr=lr, momentum=momentum)


def small_network(hidden: int = 8) -> FlatModel:
    """A float32 network on 4 features with 3 classes."""
    with torch_seed(0):
        module = nn.Sequential(nn.Linear(4, hidden), nn.Tanh(), nn.Linear(hidden, 3))
    return FlatModel(module, 3, torch.zeros(1, 4))


def uneven_clients() -> Clients:
    """Five clients of 1 to 9 noisy samples for small_network."""
    generator = np.random.default_rng(0)
    parts = np.split(np.arange(25), [7, 11, 20, 21])
    x = torch.from_numpy(generator.normal(size=(25, 4)).astype(np.float32))
    return Clients(Samples(x, torch.from_numpy(generator.integers(0, 3, 25))), parts)


TWO_EPOCHS = Plan(batch_size=3, epochs=2, steps=None, lr=0.1, momentum=0.9, weight_decay=0.01)


class Rounds:
    """Rounds of a method, eager; two lanes by default, so that three clients make two groups and a padded lane.

    Attributes:
        server: the state after the last round.
        memory: of the clients.
        total: the sums of the last round.
        local: theta^k [P] of the clients of the last round.
    """

    def __init__(self, method: FedAvg, clients: Clients, plan: Plan, lanes: int = 2) -> None:
        self.method, self.clients, self.plan, self.lanes = method, clients, plan, lanes
        self.server = method.init()
        self.memory = ClientMemory(method.init_client(), torch.device("cpu"))
        self.total = Total({})
        self.local: dict[int, Tensor] = {}
        self.finished = 0

    def groups(self, cohort: Indices) -> Iterator[Group]:
        """The cohort in groups of lanes, in the order it is given."""
        most = max(map(len, self.clients.parts))
        work = Workplace(self.clients.samples, self.method.model.dtype, False, False, lambda: None, most)
        for i in range(0, len(cohort), self.lanes):
            ids = cohort[i : i + self.lanes]
            own = [self.clients.parts[k] for k in ids]
            yield Group(work, self.plan, ids, own, self.lanes, 0, round_of_one_task(self.finished))

    def play(self, cohort: Sequence[int] | None = None) -> Tensors:
        """One round of a cohort, of all clients if none is given; the server's state after it."""
        ids = np.arange(len(self.clients.parts)) if cohort is None else np.array(cohort)
        sums, rows, kept = CohortSum(exact=True, compile=False, num_ranks=1), CohortRows(ids, torch.float64), []
        if self.method.measures(self.finished):
            self.server = self._measured()
        initial, sent = self.method.init(), self.method.sent(round_of_one_task(self.finished))
        received = {name: (self.server if name in sent else initial)[name] for name in self.method.broadcast}
        self.local = {}
        for group in self.groups(ids):
            upload = self.method.client_update(group, received, self.memory.take(group.client))
            of_group = sums.of_group(upload.sums, group.real)
            sums.add(of_group, upload.sums, group.real, [str(k) for k in group.client])
            rows.add(upload.rows, group.client, [str(k) for k in group.client])
            kept.append((group.client, upload.memory))
            self.local |= {int(k): theta for k, theta in zip(group.client, upload.theta, strict=True) if k >= 0}
        self.total = Total(sums.totals(sums.parts()), rows.totals(rows.parts()))
        info = Info(self.finished, torch.from_numpy(ids), len(self.clients.parts), torch.tensor(0))
        self.server = self.method.server_update(self.server, self.total, info)
        for group_ids, memory in kept:
            self.memory.put(group_ids, memory)
        self.finished += 1
        return self.server

    def _measured(self) -> Tensors:
        """The server's state with what it measures on all clients' samples, one after the other."""
        sums = CohortSum(exact=True, compile=False, num_ranks=1)
        ids = np.arange(len(self.clients.parts))
        for group in self.groups(ids):
            found = self.method.measure(group, self.server)
            sums.add(sums.of_group(found, group.real), found, group.real, [""] * self.lanes)
        return self.method.measured(self.server, Total(sums.totals(sums.parts())))

    def scalars(self, rounds: int, name: str = "theta") -> Floats:
        """Play rounds with all clients; a tensor [1] of the server's after each."""
        return np.array([self.play()[name].item() for _ in range(rounds)])

    def local_scalars(self) -> Floats:
        """theta^k of the last round, by client, where P is 1."""
        return np.array([self.local[k].item() for k in sorted(self.local)])

    def remembered(self, name: str) -> Tensor:
        """What all clients remember [K, ...]; those that never took part their first memory."""
        return self.memory.take(np.arange(len(self.clients.parts)))[name]


def networks_after(method: FedAvg, orders: Sequence[Sequence[int]], clients: Clients | None = None) -> Tensors:
    """The server's state after a round of each cohort, trained for two epochs."""
    rounds = Rounds(method, clients or uneven_clients(), TWO_EPOCHS)
    for cohort in orders:
        rounds.play(cohort)
    return rounds.server


def assert_same_bits(left: Tensors, right: Tensors) -> None:
    """Both states hold the same tensors, bit for bit."""
    assert left.keys() == right.keys()
    for name, tensor in left.items():
        assert torch.equal(tensor, right[name]), name


def assert_order_of_clients_does_not_matter(method: FedAvg) -> None:
    """Three rounds have the same bits with the clients of each cohort in another order and in other groups."""
    cohorts = [[0, 1, 2, 3, 4], [1, 2, 4], [0, 3, 4]]
    permuted = [[3, 0, 4, 2, 1], [4, 1, 2], [4, 0, 3]]
    server = networks_after(method, cohorts)
    assert_same_bits(server, networks_after(method, permuted))
    assert not torch.equal(server["theta"], method.init()["theta"])


def assert_identical_models_come_back(method: FedAvg, counts: Sequence[int], momentum: float = 0.0) -> None:
    """If all clients end at one float32 model, the server takes it bit for bit: float64 sums, rounded once."""
    x = torch.from_numpy(np.random.default_rng(1).normal(size=(1, 4)).astype(np.float32))
    rounds = Rounds(method, alike(x.expand(len(counts), 4), counts), steps(4, momentum=momentum))
    theta = rounds.play()["theta"]
    assert all(torch.equal(local, rounds.local[0]) for local in rounds.local.values())
    assert torch.equal(theta, rounds.local[0])
    assert not torch.equal(theta, method.init()["theta"])
