"""Rounds in which local training and the Fisher information are given, so that only a method's own rule is at work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.step import Objective
from fl_ddp.engine.workplace import Workplace
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Info, Round, Tensors, Total, Trained, Upload
from fl_ddp.ranks.exact_sum import CohortSum
from fl_ddp.ranks.memory import ClientMemory

PLAN = Plan(batch_size=1, epochs=1, steps=None, lr=0.1)


def round_of_one_task(index: int) -> Round:
    """A round of a run of one task in which every round has clients."""
    return Round(index, index - 1, ends_task=False, task=0)


class Weights(FlatModel):
    """A model whose tensors are the given ones, float64; it is never run."""

    def __init__(self, *tensors: Sequence[float]) -> None:
        linears = [nn.Linear(len(t), 1, bias=False, dtype=torch.float64) for t in tensors]
        for linear, t in zip(linears, tensors, strict=True):
            linear.weight.data = torch.tensor([t], dtype=torch.float64)
        module = nn.Sequential(nn.Linear(1, 1, dtype=torch.float64))
        super().__init__(module, 1, torch.zeros(1, 1, dtype=torch.float64))
        self.shapes = tuple(torch.Size([len(t)]) for t in tensors)
        self._sizes = [len(t) for t in tensors]
        self.num_params = sum(self._sizes)
        self._initial = torch.tensor([x for t in tensors for x in t], dtype=torch.float64)


class GivenGroup(Group):
    """A group whose local training ends where it is told to."""

    theta: Tensor
    trace: Tensors

    def train(
        self,
        start: Tensor,
        objective: Objective,
        server: Tensors,
        memory: Tensors,
        trace: Mapping[str, Tensor] | None = None,
        plan: Plan | None = None,
        draw: int = 0,
        fixed: Sequence[int] = (),
    ) -> Trained:
        return Trained(self.theta, torch.zeros(len(self.theta)), self.trace)


class GivenRounds:
    """Rounds of a method, all clients of a round in one group.

    Attributes:
        server: the state after the last round.
        upload: of the last round.
    """

    def __init__(self, method: FedAvg, owner: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
        self.method, self.server, self._index = method, method.init(), 0
        self.memory = ClientMemory(method.init_client(), torch.device("cpu"))
        self._owner, self._monkeypatch = owner, monkeypatch
        self.upload: Upload | None = None

    def play(
        self,
        theta: Sequence[Sequence[float]],
        fisher: Sequence[Sequence[float]],
        clients: Sequence[int] | None = None,
        trace: Mapping[str, Sequence[Sequence[float]]] | None = None,
    ) -> Tensor:
        """A round in which the clients end at theta [G, P] with this Fisher [G, P]; the server's theta after it."""
        ids = np.arange(len(theta)) if clients is None else np.array(clients)
        samples = Samples(torch.zeros(100, 1), torch.zeros(100, dtype=torch.int64))
        work = Workplace(samples, torch.float64, False, False, lambda: None, 100)
        when = round_of_one_task(self._index)
        group = GivenGroup(work, PLAN, ids, [np.arange(10 * (i + 1)) for i in ids], len(ids), 0, when)
        group.theta = torch.tensor(theta, dtype=torch.float64)
        group.trace = {k: torch.tensor(t, dtype=torch.float64) for k, t in (trace or {}).items()}
        self._monkeypatch.setattr(
            self._owner, "fisher", lambda *_, **__: torch.tensor(fisher, dtype=torch.float64), raising=True
        )
        sent, initial = self.method.sent(round_of_one_task(self._index)), self.method.init()
        received = {name: (self.server if name in sent else initial)[name] for name in self.method.broadcast}
        self.upload = self.method.client_update(group, received, self.memory.take(ids))
        sums = CohortSum(exact=True, compile=False, num_ranks=1)
        sums.add(sums.of_group(self.upload.sums, group.real), self.upload.sums, group.real, [str(i) for i in ids])
        info = Info(self._index, torch.from_numpy(ids), 10, torch.tensor(0))
        self.server = self.method.server_update(self.server, Total(sums.totals(sums.parts())), info)
        self.memory.put(ids, self.upload.memory)
        self._index += 1
        return self.server["theta"]
