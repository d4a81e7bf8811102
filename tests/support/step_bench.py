"""Ragged clients of a small model, and plans of all kinds by which they train."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from given import round_of_one_task
from torch import Tensor, nn

from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Normaliser, Samples
from fl_ddp.engine.seeds import torch_seed
from fl_ddp.engine.workplace import Workplace
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.optimizers.adagrad import Adagrad
from fl_ddp.optimizers.adam import Adam
from fl_ddp.optimizers.adamw import AdamW
from fl_ddp.optimizers.rmsprop import RMSprop
from fl_ddp.optimizers.schedule import Schedule
from fl_ddp.optimizers.sgd import SGD
from fl_ddp.protocol import Indices, Tensors, Trained

SEED, ROUND, CLASSES = 5, 2, 3
SIZES = (13, 1, 4, 7, 22)


def mlp(dropout: float = 0.0) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(32, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, CLASSES))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4, CLASSES)
    )


@dataclass(frozen=True)
class Penalised(FedAvg):
    """A method with a penalty and a correction, from parameter vectors and other tensors of server and clients."""

    mu: float = 0.3

    coefficients = ("mu",)

    def correct(self, g: Tensor, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        scale = (server["table"] * server["rows"]).sum() + (server["table"] - server["rows"])[0, 1]
        return g + scale * (server["c"] - mine["c"])

    def penalty(self, theta: Tensor, server: Tensors, mine: Tensors) -> Tensor:
        return self.mu / 2 * (theta - server["theta"]).square().sum()


class Bench(NamedTuple):
    """A method on a training set of ragged clients."""

    method: FedAvg
    module: nn.Module
    work: Workplace
    clients: list[Indices]
    server: Tensors
    memory: Tensors

    def group(self, plan: Plan, ids: list[int], lanes: int | None = None, round_index: int = ROUND) -> Group:
        samples = [self.clients[i] for i in ids]
        when = round_of_one_task(round_index)
        return Group(self.work, plan, np.array(ids, np.int64), samples, lanes or len(ids), SEED, when)

    def train(self, plan: Plan, ids: list[int], lanes: int | None = None, round_index: int = ROUND) -> Trained:
        group = self.group(plan, ids, lanes, round_index)
        rows = [max(i, 0) for i in group.client.tolist()]
        memory = {name: t[rows] for name, t in self.memory.items()}
        return group.train(self.server["theta"], self.method, self.server, memory)


def bench(
    make: Callable[[], nn.Module] = mlp,
    method: Callable[[FlatModel], FedAvg] = FedAvg,
    dtype: torch.dtype = torch.float64,
    *,
    bfloat16: bool = False,
    compile: bool = False,
    check: Callable[[], None] = lambda: None,
    device: str = "cpu",
) -> Bench:
    random = np.random.default_rng(0)
    count = sum(SIZES)
    x = torch.from_numpy(random.integers(0, 256, (count, 2, 4, 4)).astype(np.uint8)).to(device)
    y = torch.from_numpy(random.integers(0, CLASSES, count)).to(device)
    mean, deviation = (torch.full((2, 1, 1), v, dtype=dtype, device=device) for v in (0.5, 0.3))
    samples = Samples(x, y, Normaliser(mean, deviation))
    with torch_seed(3):
        module = make().to(dtype)
        noise = torch.randn(len(SIZES) + 1, sum(p.numel() for p in module.parameters()), dtype=dtype)
    noise, module = noise.to(device), module.to(device)
    model = FlatModel(copy.deepcopy(module), CLASSES, samples.inputs(x[:1], dtype))
    clients = np.split(random.permutation(count), np.cumsum(SIZES)[:-1])
    work = Workplace(samples, dtype, bfloat16, compile, check, max(SIZES))
    table = torch.arange(6, dtype=dtype, device=device).view(2, 3) / 50
    server = {"theta": model.init(), "c": 0.1 * noise[0], "table": table, "rows": table}
    return Bench(method(model), module, work, clients, server, {"c": 0.1 * noise[1:]})


PLANS = {
    "one epoch": Plan(5, 1.0, None, 0.1),
    "three epochs": Plan(5, 3.0, None, 0.1),
    "momentum": Plan(5, 2.0, None, 0.05, momentum=0.9),
    "weight decay": Plan(5, 2.0, None, 0.1, weight_decay=0.02),
    "momentum and weight decay": Plan(4, 2.0, None, 0.1, momentum=0.5, weight_decay=0.1),
    "batch larger than all clients": Plan(64, 3.0, None, 0.1, momentum=0.9),
    "batch of one": Plan(1, 1.0, None, 0.05),
    "fraction of an epoch": Plan(3, 0.4, None, 0.1),
    "epochs and a fraction": Plan(3, 1.5, None, 0.1, momentum=0.9),
    "fixed steps": Plan(5, None, 6, 0.1, momentum=0.9, weight_decay=0.01),
    "drop last": Plan(5, 2.0, None, 0.1, momentum=0.9, drop_last=True),
    "fixed steps, drop last": Plan(5, None, 4, 0.1, drop_last=True),
    "nesterov": Plan(4, 2.0, None, 0.1, momentum=0.9, weight_decay=0.1, optimizer=SGD(nesterov=True)),
    "dampening": Plan(4, 2.0, None, 0.1, momentum=0.9, weight_decay=0.1, optimizer=SGD(dampening=0.3)),
    "Adam": Plan(4, 2.0, None, 0.01, weight_decay=0.1, optimizer=Adam()),
    "Adam of other means": Plan(4, 3.0, None, 0.01, optimizer=Adam(betas=(0.5, 0.0), eps=0.1, amsgrad=True)),
    "AdamW": Plan(4, 2.0, None, 0.01, optimizer=AdamW()),
    "AdamW that decays fast": Plan(4, 2.0, None, 0.01, optimizer=AdamW(weight_decay=3.0, amsgrad=True)),
    "Adagrad": Plan(4, 2.0, None, 0.01, weight_decay=0.1, optimizer=Adagrad()),
    "Adagrad that slows down": Plan(
        4, 2.0, None, 0.1, optimizer=Adagrad(lr_decay=0.3, initial_accumulator_value=0.1, eps=1e-3)
    ),
    "RMSprop": Plan(4, 2.0, None, 0.01, weight_decay=0.1, optimizer=RMSprop(eps=1e-4)),
    "RMSprop with all": Plan(4, 2.0, None, 0.01, momentum=0.9, optimizer=RMSprop(alpha=0.5, eps=0.1, centered=True)),
    "clipped": Plan(5, 2.0, None, 0.1, momentum=0.9, weight_decay=0.1, clip_norm=0.7),
    "cosine over steps": Plan(5, 2.0, None, 0.1, momentum=0.9, over_steps=Schedule("cosine", 1.0, least=0.1)),
    "Adam over steps": Plan(
        4, 2.0, None, 0.01, optimizer=AdamW(), over_steps=Schedule("warmup_cosine", 1.0, warmup=2, least=0.1)
    ),
    "augmented": Plan(5, 2.0, None, 0.1, momentum=0.9, augment=("flip",)),
    "clipped Adam": Plan(5, 2.0, None, 0.01, optimizer=Adam(), clip_norm=0.3),
}
