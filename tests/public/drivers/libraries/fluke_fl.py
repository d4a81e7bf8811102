"""Runs algorithms of fluke on the small federation and writes what they compute.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/libraries/fluke_fl.py CLONE

CLONE is a checkout of https://github.com/makgyver/fluke, the package fluke-fl, which needs some of what its
requirements.txt names. Its algorithms, its servers, its clients, its channel and its loop over rounds run unchanged.
Given are the network, the samples of each client as one batch, and whose turn it is; nothing is evaluated, and FedRoD's
personal heads begin at zero. A client's
optimizer lasts there as long as its model, unless the client is made to forget both after each round.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from federation import CLASSES, COHORTS, EPOCHS, LR, SIZES, WORK, Network, Normed, samples
from public_numbers import Found, Round, flat, write
from torch import Tensor, nn


class Case(NamedTuple):
    """An algorithm of the library.

    Attributes:
        algorithm: its module and class.
        settings: of its clients.
        state: what the server and its clients know after a round.
        server: settings of its server, beside weights by samples.
        momentum: of the clients.
        begin: what is done to the algorithm before its first round.
        make: the network.
        work: what each client's epochs are multiplied by.
    """

    algorithm: str
    settings: Mapping[str, float]
    state: Callable[[Any], Round]
    server: Mapping[str, float] = {}
    momentum: float = 0.0
    begin: Callable[[Any], None] = lambda algorithm: None
    make: Callable[[], Network] = Network
    work: Sequence[float] = (1.0,) * len(SIZES)


def theta(algorithm: Any) -> Round:
    """The global model."""
    return {"theta": flat(algorithm.server.model.parameters())}


def of_trained(algorithm: Any, name: str, own: Callable[[Any], Iterable[Tensor]]) -> Round:
    """Parameters of every client that has trained."""
    trained = [client for client in algorithm.clients if client.index in algorithm._participants]
    return {f"client {client.index}: {name}": flat(own(client)) for client in trained}


def with_statistics(algorithm: Any) -> Round:
    """The global model, and what BatchNorm has counted."""
    counted = [own for own in algorithm.server.model.buffers() if own.dtype.is_floating_point]
    return {"theta": flat([*algorithm.server.model.parameters(), *counted])}


def scaffold(algorithm: Any) -> Round:
    c = {"c": flat(algorithm.server.control.values())}
    return theta(algorithm) | c | of_trained(algorithm, "c", lambda client: client.control.values())


def moon(algorithm: Any) -> Round:
    return theta(algorithm) | of_trained(algorithm, "previous", lambda client: client.model.parameters())


def fedala(algorithm: Any) -> Round:
    """Who trained once has no weights yet, as all are 1."""
    own = of_trained(algorithm, "theta", lambda client: client.model.parameters())
    head = [torch.ones_like(each) for each in Network().head.parameters()]
    return theta(algorithm) | own | of_trained(algorithm, "w", lambda client: client.weights or head)


def fedrod(algorithm: Any) -> Round:
    return theta(algorithm) | of_trained(algorithm, "phi", lambda client: client.inner_model.parameters())


def no_personal_heads(algorithm: Any) -> None:
    """Personal heads begin at zero, not at the generic head."""
    for client in algorithm.clients:
        client.inner_model = Network().head
        for own in client.inner_model.parameters():
            own.data.zero_()


FORGETS = {"persistency": False}
CONTRAST = {"mu": 2.0, "tau": 0.5}
MIXING = {"ala_sample_size": 1.0, "eta": 20.0, "conergence_threshold": 0.001, "loss_window_size": 3}
CASES = {
    "scaffold": Case("scaffold.SCAFFOLD", {}, scaffold, {"lr": 0.7}),
    "scaffold, unequal work": Case("scaffold.SCAFFOLD", {}, scaffold, {"lr": 0.7}, work=WORK),
    "fedavg, BatchNorm": Case("fedavg.FedAVG", FORGETS, with_statistics, momentum=0.8, make=Normed, work=WORK),
    "moon": Case("moon.MOON", CONTRAST, moon),
    "fedala": Case("fedala.FedALA", MIXING, fedala),
    "fedala, momentum kept": Case("fedala.FedALA", MIXING, fedala, momentum=0.8),
    "fedrod": Case("fedrod.FedROD", FORGETS, fedrod, momentum=0.8, begin=no_personal_heads),
}


class Samples:
    """What deals samples to clients."""

    def assign(self, n_clients: int, batch_size: int) -> tuple[tuple[list[Any], list[None]], None]:
        """Each client's as one batch; there are none to test."""
        loader = importlib.import_module("fluke.data").FastDataLoader
        parts = [samples(client) for client in range(n_clients)]
        return ([loader(*each, num_labels=CLASSES, batch_size=batch_size) for each in parts], [None] * n_clients), None


def rounds_of(case: Case) -> list[Round]:
    """What the library computes."""
    file, name = case.algorithm.split(".")
    network = case.make()
    options = {
        "client": {
            "batch_size": max(SIZES), "local_epochs": EPOCHS, "loss": nn.CrossEntropyLoss, **case.settings,
            "optimizer": {"name": "SGD", "lr": LR, "momentum": case.momentum},
            "scheduler": {"name": "StepLR", "step_size": 1, "gamma": 1.0},
        },
        "server": {"weighted": True, **case.server},
        "model": importlib.import_module("fluke.nets").EncoderHeadNet(network.base, network.head),
    }  # fmt: skip
    algorithm = getattr(importlib.import_module(f"fluke.algorithms.{file}"), name)(len(SIZES), Samples(), options)
    turns, found = iter(COHORTS), list[Round]()
    algorithm.server.get_eligible_clients = lambda share: [algorithm.clients[k] for k in next(turns)]

    class Watch(importlib.import_module("fluke.utils").FederationObserver):  # type: ignore[misc]
        """Is told when a round is over."""

        def end_round(self, round: int) -> None:
            found.append(case.state(algorithm))

    algorithm.set_callbacks(Watch())
    for client, epochs in zip(algorithm.clients, local_epochs(case), strict=True):
        client.hyper_params.local_epochs = epochs
    case.begin(algorithm)
    algorithm.run(len(COHORTS), 1.0)
    return found


def local_epochs(case: Case) -> list[int]:
    """Of each client."""
    return [round(EPOCHS * factor) for factor in case.work]


def settings(case: Case) -> Mapping[str, object]:
    """In the library's words."""
    training = {"momentum": case.momentum, "local_epochs": local_epochs(case)}
    return {"algorithm": case.algorithm, **case.settings, **case.server, **training}


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    importlib.import_module("fluke").FlukeENV().set_eval_cfg(pre_fit=False, post_fit=False, locals=False, server=False)
    found = {name: Found(settings(case), rounds_of(case)) for name, case in CASES.items()}
    write("fluke_fl", "https://github.com/makgyver/fluke", sys.argv[1], found)
