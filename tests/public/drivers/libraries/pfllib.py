"""Runs methods of PFLlib on the small federation and writes what they compute.

    PYTHONPATH=tests/public:CLONE/system python tests/public/drivers/libraries/pfllib.py CLONE

CLONE is a checkout of https://github.com/TsingZ0/PFLlib, which needs h5py and scikit-learn. Its servers, its
clients and its loop over rounds run unchanged. Given are the samples, whose turn it is, and batches of all samples of a
client; nothing is evaluated, and none of the library's files is written. FedRoD's personal heads begin at zero.
"""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from federation import CLASSES, COHORTS, EPOCHS, EVERYBODY, LR, SIZES, Network, Normed, Samples, alike, samples
from public_numbers import Found, Round, flat, write
from torch import Tensor, nn
from torch.utils.data import DataLoader

DEFAULTS = {
    "device": "cpu", "num_classes": CLASSES, "local_epochs": EPOCHS, "local_learning_rate": LR,
    "num_clients": len(SIZES), "join_ratio": 1.0, "random_join_ratio": False, "few_shot": 0, "time_select": False,
    "goal": "", "time_threthold": 1e9, "save_folder_name": "", "top_cnt": 1, "auto_break": False, "eval_gap": 1,
    "client_drop_rate": 0.0, "train_slow_rate": 0.0, "send_slow_rate": 0.0, "dlg_eval": False, "dlg_gap": 1,
    "batch_num_per_client": 1, "num_new_clients": 0, "fine_tuning_epoch_new": 0, "learning_rate_decay": False,
    "learning_rate_decay_gamma": 1.0, "dataset": "", "batch_size": max(SIZES), "server_learning_rate": 1.0,
}  # fmt: skip
"""Of the library's command line: nobody fails, nothing decays."""
READERS = ("clients.clientbase", "servers.serverbase", "clients.clientala", "clients.clientfomo")
"""Modules that read samples of files."""


class Case(NamedTuple):
    """A server of the library.

    Attributes:
        server: its module and class.
        settings: of the method, as the library's command line names them.
        state: what the server and its clients know after a round.
        cohorts: who trains in which round.
        make: the network.
        samples: of a client.
        begin: what is done to the server before its first round.
    """

    server: str
    settings: Mapping[str, float]
    state: Callable[[Any], Round]
    cohorts: Sequence[Sequence[int]] = COHORTS
    make: Callable[[], nn.Module] = Network
    samples: Callable[[int], Samples] = samples
    begin: Callable[[Any], None] = lambda server: None


def theta(server: Any) -> Round:
    """The global model."""
    return {"theta": flat(server.global_model.parameters())}


def of_clients(server: Any, name: str, own: Callable[[Any], Any]) -> Round:
    """Parameters of every client that has trained."""
    trained = [client for client in server.clients if client.train_time_cost["num_rounds"]]
    return {f"client {client.id}: {name}": flat(own(client)) for client in trained}


def without_head(server: Any) -> Round:
    """The body, and the clients' heads."""
    return {
        "theta: base": flat(server.global_model.parameters()),
        **of_clients(server, "head", lambda client: client.model.head.parameters()),
    }


def scaffold(server: Any) -> Round:
    return theta(server) | {"c": flat(server.global_c)} | of_clients(server, "c", lambda client: client.client_c)


def ditto(server: Any) -> Round:
    return theta(server) | of_clients(server, "v", lambda client: client.model_per.parameters())


def fedbn(server: Any) -> Round:
    """All but BatchNorm's of the global model, and BatchNorm's of the clients."""
    shared = (server.global_model.base.first, server.global_model.head)
    first, head = (flat(layer.parameters()) for layer in shared)
    return {"theta: base.first": first, "theta: head": head, **of_clients(server, "norms", norms)}


def norms(client: Any) -> list[Tensor]:
    """Weight and bias of BatchNorm, and its running statistics."""
    layer = client.model.base.bn
    return [layer.weight, layer.bias, layer.running_mean, layer.running_var]


def no_personal_heads(server: Any) -> None:
    """Personal heads begin at zero, not at the generic head."""
    for client in server.clients:
        for own in client.head.parameters():
            own.data.zero_()


def fedrod(server: Any) -> Round:
    return theta(server) | of_clients(server, "phi", lambda client: client.head.parameters())


def fedala(server: Any) -> Round:
    weights = of_clients(
        server, "w", lambda c: c.ALA.weights or [torch.ones_like(p) for p in c.model.head.parameters()]
    )
    return theta(server) | weights | of_clients(server, "theta", lambda client: client.model.parameters())


def models(server: Any) -> Round:
    return {"models": torch.cat([flat(client.model.parameters()) for client in server.clients])}


CASES = {
    "fedavg": Case("serveravg.FedAvg", {}, theta),
    "fedprox": Case("serverprox.FedProx", {"mu": 0.5}, theta),
    "scaffold": Case("serverscaffold.SCAFFOLD", {"server_learning_rate": 0.7}, scaffold),
    "moon": Case("servermoon.MOON", {"mu": 2.0, "tau": 0.5}, theta, cohorts=EVERYBODY),
    "fedntd": Case("serverntd.FedNTD", {"beta": 0.8, "tau": 2.0}, theta),
    "ditto": Case("serverditto.Ditto", {"mu": 0.6, "plocal_epochs": EPOCHS}, ditto),
    "fedbn": Case("serverbn.FedBN", {}, fedbn, make=Normed),
    "fedper": Case("serverper.FedPer", {}, without_head),
    "fedrep": Case("serverrep.FedRep", {"plocal_epochs": 3}, without_head),
    "fedrod": Case("serverrod.FedROD", {}, fedrod, begin=no_personal_heads),
    "fedala": Case("serverala.FedALA", {"eta": 1.0, "rand_percent": 100, "layer_idx": 2}, fedala, cohorts=EVERYBODY),
    "fedfomo": Case("serverfomo.FedFomo", {"M": len(SIZES)}, models, cohorts=EVERYBODY, samples=alike),
}


class AfterRounds(list[float]):
    """The list in which a server notes each round's time, which tells when a round is over."""

    def __init__(self, over: Callable[[], None]) -> None:
        super().__init__()
        self.over = over

    def append(self, seconds: float) -> None:
        super().append(seconds)
        self.over()


def rounds_of(case: Case) -> list[Round]:
    """What the library computes."""
    importlib.import_module("random").seed(0)  # the order of a cohort, a matter of rounding
    for name in READERS:
        module: Any = importlib.import_module(f"flcore.{name}")
        module.read_client_data = lambda dataset, idx, **_: list(zip(*case.samples(idx), strict=True))
        module.DataLoader = whole
    file, name = case.server.split(".")
    options: dict[str, Any] = {**DEFAULTS, "algorithm": name, "global_rounds": len(case.cohorts) - 1, **case.settings}
    split = importlib.import_module("flcore.trainmodel.models").BaseHeadSplit
    network = case.make()
    options |= {"model": split(network.base, network.head), "join_ratio": len(case.cohorts[0]) / len(SIZES)}
    server = getattr(importlib.import_module(f"flcore.servers.{file}"), name)(Namespace(**options), 0)
    turns, found = iter(case.cohorts), []
    server.select_clients = lambda: [server.clients[k] for k in next(turns)]
    server.evaluate = server.evaluate_personalized = server.save_results = server.save_global_model = lambda: None
    server.rs_test_acc = [0.0]
    server.Budget = AfterRounds(lambda: found.append(case.state(server)))
    case.begin(server)
    server.train()
    return found


def whole(samples: Any, batch_size: int, **_: object) -> DataLoader[Any]:
    """All samples as one batch, in their order."""
    return DataLoader(samples, len(samples))


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    found = {name: Found({"server": case.server, **case.settings}, rounds_of(case)) for name, case in CASES.items()}
    write("pfllib", "https://github.com/TsingZ0/PFLlib", sys.argv[1], found)
