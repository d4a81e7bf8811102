"""Runs a loss of TPFL on the small federation and writes what clients learn by it.

    PYTHONPATH=tests/public:CLONE/PFL/system python tests/public/drivers/official/tpfl.py CLONE

CLONE is a checkout of TPFL, a later work of FedKA's first author, who published no code of FedKA. None of it has
knowledge anchors, but one of its functions, which it nowhere calls, is FedKA's distance for who has one dominant class:
the squared difference of two models' outputs without that class, summed over the others, with the mean over samples.
It runs unchanged, on processors in place of GPUs. Given is all else: the anchors, one of each class that a client does
not have much of, torch's SGD on cross-entropy and the distance of the received model's outputs, and the weighted mean.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch
from federation import CLASSES, COHORTS, EPOCHS, LR, Network, one_class, prototype
from public_numbers import Found, Round, flat, write
from seen import stay
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

BETA = 0.4


def trained(theta: Tensor, client: int) -> tuple[Tensor, int]:
    """A client's model after local training from the received one, and the number of its samples."""
    losses: Any = importlib.import_module("flcore.optimizers.losses")
    network, (x, labels) = Network(), one_class(client)
    vector_to_parameters(theta.clone(), network.parameters())
    # all samples of a class are alike, so that it is no matter which of them is an anchor
    anchors = torch.stack([prototype(label) for label in range(CLASSES) if label != client])
    own, received = torch.full((len(anchors),), client), network(anchors)[1].detach()
    optimizer = torch.optim.SGD(network.parameters(), LR)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        distance = losses.not_true_consistency_l2_loss(network(anchors)[1], received, own, CLASSES)
        torch.autograd.backward(cross_entropy(network(x)[1], labels) + BETA * distance)
        optimizer.step()
    return flat(network.parameters()), len(labels)


def rounds_of() -> list[Round]:
    """The global model after each round."""
    theta, found = flat(Network().parameters()), list[Round]()
    for cohort in COHORTS:
        results = [trained(theta, client) for client in cohort]
        theta = torch.stack([model * count for model, count in results]).sum(0) / sum(count for _, count in results)
        found.append({"theta": theta})
    return found


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    stay()
    settings = {"loss": "not_true_consistency_l2_loss", "weight": BETA}
    write("tpfl", "https://github.com/J1nqianChen/TPFL", sys.argv[1], {"fedka": Found(settings, rounds_of())})
