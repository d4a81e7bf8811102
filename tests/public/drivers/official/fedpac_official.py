"""Runs FedPAC's official code on the small federation and writes what it computes.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/official/fedpac_official.py CLONE

CLONE is a checkout of https://github.com/JianXu95/FedPAC, which needs cvxpy. Its clients and its rounds run unchanged.
Given are the network, the samples, whose turn it is, batches of all samples of a client, and torch.eig, which is gone
from torch and made no difference: all matrices have positive eigenvalues.
"""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar, NamedTuple

import torch
from federation import CLASSES, EPOCHS, EVERYBODY, LR, SIZES, WITH_FIRST, Network, Samples, as_many, samples
from public_numbers import Found, Round, flat, write
from seen import Seen
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset


class Case(NamedTuple):
    """Rounds of the method.

    Attributes:
        settings: as the command line of the official code names them.
        cohorts: who trains in which round.
        samples: of a client.
    """

    settings: Mapping[str, float]
    cohorts: Sequence[Sequence[int]]
    samples: Callable[[int], Samples]


CASES = {
    "one weight is cut": Case({"lam": 8.0, "agg_g": 1}, WITH_FIRST, samples),
    "many weights are zero": Case({"lam": 3.0, "agg_g": 1}, EVERYBODY, as_many),
}


class Personal(Network):
    """The network, which says what of it is the head."""

    classifier_weight_keys: ClassVar[list[str]] = ["head.weight", "head.bias"]


def eig(matrix: Tensor, eigenvectors: bool) -> tuple[Tensor, Tensor]:
    """Eigenvalues [m, 2] and eigenvectors of a symmetric matrix."""
    values, vectors = torch.linalg.eigh(matrix)
    return torch.stack([values, torch.zeros_like(values)], 1), vectors


def known(clients: Any) -> Round:
    """The body, which all clients have, all heads, and the class means."""
    return {
        "theta: base": flat(clients[0].local_model.base.parameters()),
        "heads": torch.cat([flat(client.local_model.head.parameters()) for client in clients]),
        "means": flat(clients[0].g_protos),
    }


def rounds_of(case: Case) -> list[Round]:
    """What the official code computes."""
    running, turns = importlib.import_module("running"), iter(case.cohorts)
    running.__dict__["np"] = Namespace(random=Namespace(choice=lambda *args, **options: next(turns)))
    parts = [case.samples(k) for k in range(len(SIZES))]
    args = Namespace(
        num_classes=CLASSES, device="cpu", lr=LR, epochs=len(case.cohorts), num_users=len(parts), local_epoch=EPOCHS,
        frac=len(case.cohorts[0]) / len(parts), **case.settings,
    )  # fmt: skip
    make, model, clients = importlib.import_module("methods").local_update("FedPAC"), Personal(), list[Any]()
    for k, own in enumerate(parts):
        whole = DataLoader(TensorDataset(*own), len(own[1]))
        clients.append(make(idx=k, args=args, train_set=whole, test_set=whole, model=deepcopy(model)))
    found = []
    for t in range(len(case.cohorts)):
        running.one_round_training("FedPAC")(args, model, clients, t)
        found.append(known(clients))
    return found


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    importlib.import_module("tools").__dict__["torch"] = Seen(torch, eig=eig)
    found = {name: Found(case.settings, rounds_of(case)) for name, case in CASES.items()}
    write("fedpac_official", "https://github.com/JianXu95/FedPAC", sys.argv[1], found)
