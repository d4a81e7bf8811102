"""Methods with one mistake each, to see that the checks find it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from fl_ddp.engine.group import Group
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Info, Tensors, Term, Total, Upload


@dataclass(frozen=True)
class LooksAtNeighbours(FedAvg):
    """Pulls a client to the one in the first lane of its group."""

    neutral: ClassVar[Mapping[str, float] | None] = None

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        trained = group.train(server["theta"], self, server, memory)
        theta = trained.theta + 0.1 * (trained.theta[0] - trained.theta)
        return Upload(self.average(group, server, trained._replace(theta=theta)), theta)


@dataclass(frozen=True)
class CountsPaddedLanes(FedAvg):
    """Weighs a client by how full its group is."""

    neutral: ClassVar[Mapping[str, float] | None] = None

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        trained = group.train(server["theta"], self, server, memory)
        share = group.real * group.real.sum() / group.lanes
        delta = Term(trained.theta, minus=server["theta"], weight=share)
        loss = Term(trained.loss, weight=group.real)
        sums: dict[str, Tensor | Term] = {"weight": group.real, "delta": delta, "loss": loss}
        return Upload(sums, trained.theta)


@dataclass(frozen=True)
class WritesInPlace(FedAvg):
    """Changes the server's state where its clients read it, unseen by torch, and by the look at a first round.

    A round that fails cannot be dropped.
    """

    neutral: ClassVar[Mapping[str, float] | None] = None

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        upload = super().client_update(group, server, memory)
        if group.round > 0:
            server["theta"].numpy()[0] = 0.5
        return upload


_velocity: WeakKeyDictionary[FlatModel, Tensor] = WeakKeyDictionary()


@dataclass(frozen=True)
class RemembersElsewhere(FedAvg):
    """Keeps a momentum outside the server's state, where no checkpoint finds it."""

    neutral: ClassVar[Mapping[str, float] | None] = None

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        v = 0.5 * _velocity.get(self.model, torch.zeros(())) + self.mean_delta(total)
        _velocity[self.model] = v
        return {"theta": (server["theta"] + v).to(server["theta"].dtype)}


@dataclass(frozen=True)
class NearlyNeutral(FedAvg):
    """Leaves a trace at its neutral coefficient, too small for a tolerance."""

    mu: float = 0.1

    neutral: ClassVar[Mapping[str, float] | None] = {"mu": 0.0}

    def correct(self, g: Tensor, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        return g * (1 + self.mu) / (1 + 1e-7)


@dataclass(frozen=True)
class ForgetsItsCoefficient(FedAvg):
    """Is FedAvg whatever its coefficient."""

    mu: float = 0.1

    neutral: ClassVar[Mapping[str, float] | None] = {"mu": 0.0}


@dataclass(frozen=True)
class Grows(FedAvg):
    """Trains with a tensor that gets longer every round, so that every round compiles its steps anew."""

    neutral: ClassVar[Mapping[str, float] | None] = None

    def penalty(self, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        return 1e-3 * server["bank"].mean() * theta.square().sum()

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        bank = server["theta"].new_ones(group.round + 1)
        trained = group.train(server["theta"], self, {**server, "bank": bank}, memory)
        return Upload(self.average(group, server, trained), trained.theta)


_begun: list[int] = []


@dataclass(frozen=True)
class BeginsDifferently(FedAvg):
    """Has clients begin with a longer memory whenever it is asked what they begin with."""

    neutral: ClassVar[Mapping[str, float] | None] = None

    def init_client(self) -> Tensors:
        _begun.append(1)
        return {"seen": torch.zeros(len(_begun))}

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        return replace(super().client_update(group, server, memory), memory=memory)


_updates: list[Tensor] = []


@dataclass(frozen=True)
class RemembersOtherRuns(FedAvg):
    """Takes shorter steps the more updates this process has made, in whatever run."""

    neutral: ClassVar[Mapping[str, float] | None] = None

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        _updates.append(total.sums["weight"])
        return {"theta": (server["theta"] + self.mean_delta(total) / len(_updates)).to(server["theta"].dtype)}


_trained: WeakKeyDictionary[FlatModel, int] = WeakKeyDictionary()


@dataclass(frozen=True)
class CountsGroups(FedAvg):
    """Trusts the groups that it sees later less."""

    neutral: ClassVar[Mapping[str, float] | None] = None

    def client_update(self, group: Group, server: Tensors, memory: Tensors) -> Upload:
        _trained[self.model] = _trained.get(self.model, 0) + 1
        trained = group.train(server["theta"], self, server, memory)
        theta = server["theta"] + (trained.theta - server["theta"]) / _trained[self.model]
        return Upload(self.average(group, server, trained._replace(theta=theta)), theta)


@dataclass(frozen=True)
class KnowsItsRanks(FedAvg):
    """Takes a longer step the more ranks there are."""

    neutral: ClassVar[Mapping[str, float] | None] = None

    def server_update(self, server: Tensors, total: Total, info: Info) -> Tensors:
        step = int(os.environ.get("WORLD_SIZE", "1")) * self.mean_delta(total)
        return {"theta": (server["theta"] + step).to(server["theta"].dtype)}


@dataclass(frozen=True)
class DiffersWhenCompiled(FedAvg):
    """Takes longer local steps where they are compiled."""

    neutral: ClassVar[Mapping[str, float] | None] = None

    def correct(self, g: Tensor, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        return 1.01 * g if torch.compiler.is_compiling() else g
