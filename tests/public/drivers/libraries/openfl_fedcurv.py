"""Runs FedCurv of OpenFL on the small federation and writes what it computes.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/libraries/openfl_fedcurv.py CLONE

CLONE is a checkout of https://github.com/securefederatedai/openfl, which needs dynaconf and pandas. Its FedCurv, with
the penalty, the Fisher information and what a collaborator remembers, its function that aggregates, and how it takes
tensors out of a model and puts them back run unchanged. Given are the training that calls them, as the library's
tutorial has it, the samples, one batch of a collaborator's each, and whose turn it is.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import torch
from federation import ARRIVING, EPOCHS, EVERYBODY, LR, SIZES, Network, Normed, samples
from public_numbers import Found, Round, flat, write
from torch import Tensor
from torch.nn.functional import cross_entropy


class Case(NamedTuple):
    """A run of FedCurv.

    Attributes:
        importance: strength of the penalty.
        cohorts: who trains in which round.
        make: the network.
    """

    importance: float
    cohorts: Sequence[Sequence[int]] = EVERYBODY
    make: Callable[[], Network] = Network


CASES = {
    "fedcurv": Case(2.0),
    "fedcurv, BatchNorm": Case(0.5, make=Normed),
    "fedcurv, cohorts": Case(2.0, ARRIVING),
}


class Collaborator:
    """A client of the library's, in a process of its own there."""

    def __init__(self, client: int, case: Case) -> None:
        library: Any = importlib.import_module("openfl.utilities.fedcurv.torch")
        adapter: Any = importlib.import_module("openfl.plugins.frameworks_adapters.pytorch_adapter")
        self.exchange = adapter.FrameworkAdapterPlugin
        self.model = Logits(case.make())
        self.loader = [samples(client)]
        # the library sends it and the model one by one, so that they share no tensors
        self.curvature = deepcopy(library.FedCurv(self.model, importance=case.importance))

    def train(self) -> None:
        """As the tutorial does."""
        optimizer = torch.optim.SGD(self.model.parameters(), lr=LR)
        self.curvature.on_train_begin(self.model)
        self.model.train()
        for _ in range(EPOCHS):
            for x, labels in self.loader:
                optimizer.zero_grad()
                loss = cross_entropy(self.model(x), labels) + self.curvature.get_penalty(self.model)
                loss.backward()
                optimizer.step()
        self.curvature.on_train_end(self.model, self.loader, "cpu")


class Logits(torch.nn.Module):
    """A network without its features."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.base, self.head = network.base, network.head

    def forward(self, x: Tensor) -> Any:
        return self.head(self.base(x))


def rounds_of(case: Case) -> list[Round]:
    """What the library computes."""
    functions: Any = importlib.import_module("openfl.interface.aggregation_functions")
    local: Any = importlib.import_module("openfl.utilities").LocalTensor
    aggregate = functions.FedCurvWeightedAverage()
    collaborators = [Collaborator(client, case) for client in range(len(SIZES))]
    first = collaborators[0]
    total = first.exchange.get_tensor_dict(first.model)
    found = []
    for number, cohort in enumerate(case.cohorts):
        sent = {}
        for client in cohort:
            one = collaborators[client]
            one.exchange.set_tensor_dict(one.model, {**total})
            one.train()
            sent[client] = one.exchange.get_tensor_dict(one.model)
        for name in total:
            tensors = [local(str(k), own[name], SIZES[k]) for k, own in sent.items()]
            total[name] = np.asarray(aggregate(tensors, None, name, number, ()))
        of_clients = {f"client {k}: u": known(own, first.model)["u"] for k, own in sent.items()}
        found.append(known(total, first.model) | of_clients)
    return found


def known(tensors: Any, model: torch.nn.Module) -> Round:
    """The model with its running statistics, and curvature, of which these have none."""
    names = [name for name, _ in model.named_parameters()]
    running = [name for name in tensors if name.endswith(("running_mean", "running_var"))]
    vectors = {"theta": [tensors[name] for name in [*names, *running]]}
    for kind in ("u", "v"):
        none = [np.zeros_like(tensors[name]) for name in running]
        vectors[kind] = [tensors[f"{name}_{kind}"] for name in names] + none
    return {kind: flat(map(torch.as_tensor, own)) for kind, own in vectors.items()}


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    found = {name: Found({"importance": case.importance}, rounds_of(case)) for name, case in CASES.items()}
    write("openfl_fedcurv", "https://github.com/securefederatedai/openfl", sys.argv[1], found)
