"""Runs methods of FedNTD's repository on the small federation and writes what they compute.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/official/fedntd_repository.py CLONE

CLONE is a checkout of https://github.com/Lee-Gihun/FedNTD: its servers, its clients and its loops over rounds run
unchanged. Given are the network, the samples, whose turn it is, batches of at most ten samples, weights of clients in
double precision, and no Weights & Biases, to which the library writes accuracies.
"""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch
from federation import (
    CLASSES,
    COHORTS,
    EPOCHS,
    LR,
    ONE_BY_ONE,
    SIZES,
    TOGETHER,
    Logits,
    Samples,
    alike,
    samples,
)
from public_numbers import Found, Round, flat, write
from seen import torch_of_doubles
from torch.utils.data import DataLoader, TensorDataset

BATCH = 10
MOMENTUM = 0.5


class Case(NamedTuple):
    """A server of the library.

    Attributes:
        settings: of the method, as the library's files of settings name them.
        state: what the server and its clients know after a round, beside the global model.
        cohorts: who trains in which round.
        samples: of a client.
        optimizer: options of the clients' SGD.
    """

    settings: Mapping[str, float]
    state: Callable[[Any], Round] = lambda server: {}
    cohorts: Sequence[Sequence[int]] = COHORTS
    samples: Callable[[int], Samples] = samples
    optimizer: Mapping[str, Any] = {}


def of_clients(server: Any, name: str, own: Callable[[int], Any]) -> Round:
    """A vector of every client that has trained."""
    trained = sorted({k for cohort in server.server_results["client_history"] for k in cohort})
    return {f"client {k}: {name}": own(k).clone() for k in trained}


def fedcurv(server: Any) -> Round:
    u, v = server.updated_local_uts, server.updated_local_vts
    return of_clients(server, "u", lambda k: u[k]) | of_clients(server, "v", lambda k: v[k])


def feddyn(server: Any) -> Round:
    return {"h": flat(server.h_t.values())} | of_clients(server, "g", lambda k: flat(server.local_grads[k].values()))


def scaffold(server: Any) -> Round:
    return {"c": server.c.clone()} | of_clients(server, "c", lambda k: server.local_c[k])


def moon(server: Any) -> Round:
    return of_clients(server, "previous", lambda k: flat(server.prev_locals[k].values()))


def fedavgm(server: Any) -> Round:
    return {"v": torch.from_numpy(server.m_flat.copy())}


CASES = {
    "fedavg": Case({}, optimizer={"momentum": MOMENTUM, "weight_decay": 0.05}),
    "fedprox": Case({"mu": 0.5}, optimizer={"momentum": MOMENTUM}),
    "fedavgm": Case({"avgm_beta": 0.6}, fedavgm),
    "fednova": Case({"nova_ccvr": False}, samples=alike, optimizer={"momentum": MOMENTUM}),
    "scaffold": Case({"adaptive_divison": True}, scaffold, samples=alike, optimizer={"momentum": MOMENTUM}),
    "moon": Case({"mu": 2.0, "tau": 0.5}, moon, cohorts=TOGETHER),
    "feddyn": Case({"dyn_alpha": 0.4}, feddyn),
    "fedntd": Case({"beta": 0.8, "tau": 2.0}),
    "fedcurv": Case({"size": 100, "lam": 3.0}, fedcurv, cohorts=ONE_BY_ONE),
}


def rounds_of(name: str, case: Case) -> list[Round]:
    """What the library computes."""
    model, clients = Logits(), [case.samples(k) for k in range(len(SIZES))]
    loaders = [DataLoader(TensorDataset(*own), BATCH) for own in clients]
    data = {
        "num_classes": CLASSES,
        "global": {"test": DataLoader(TensorDataset(*samples(0)), BATCH)},
        "local": {k: {"datasize": len(own[1]), "train": loaders[k]} for k, own in enumerate(clients)},
        "data_map": [torch.bincount(labels, minlength=CLASSES).tolist() for _, labels in clients],
    }
    server = importlib.import_module(f"algorithms.{name}").Server(
        Namespace(**case.settings), model, data, torch.optim.SGD(model.parameters(), LR, **case.optimizer), None,
        n_rounds=len(case.cohorts), sample_ratio=len(case.cohorts[0]) / len(SIZES), local_epochs=EPOCHS, device="cpu",
    )  # fmt: skip
    server._client_sampling = lambda round_idx: list(case.cohorts[round_idx])
    found, over = list[Round](), server._update_and_evaluate

    def end_of_round(*args: Any) -> None:
        over(*args)
        found.append({"theta": flat(server.model.parameters())} | case.state(server))

    server._update_and_evaluate = end_of_round
    server.run()
    return found


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    weights_and_biases = ModuleType("wandb")
    weights_and_biases.__dict__["log"] = lambda *args, **options: None
    sys.modules["wandb"] = weights_and_biases
    for name in ("algorithms.BaseServer", "algorithms.feddyn.Server"):
        importlib.import_module(name).__dict__["torch"] = torch_of_doubles()
    found = {name: Found({**case.settings, **case.optimizer}, rounds_of(name, case)) for name, case in CASES.items()}
    write("fedntd_repository", "https://github.com/Lee-Gihun/FedNTD", sys.argv[1], found)
