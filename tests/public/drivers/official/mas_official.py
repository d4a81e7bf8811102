"""Runs the official code of MAS in place of FedCL's measure and penalty, and writes what it computes.

    PYTHONPATH=tests/public:CLONE/MAS_to_be_published python tests/public/drivers/official/mas_official.py CLONE

CLONE is a checkout of https://github.com/rahafaljundi/MAS-Memory-Aware-Synapses, which needs matplotlib and
torchvision. Its measure of importance by the squared norm of the outputs, on single samples, and its SGD with the
penalty run unchanged. Given are the federation around them: before a round the measure is taken at the model on all
clients' samples, each client trains from the model with it, and their models are averaged; also the network, the loss,
and a processor in place of a GPU.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import redirect_stdout
from io import StringIO
from typing import Any

import torch
from federation import COHORTS, EPOCHS, LR, SIZES, Plain, samples
from public_numbers import Found, Round, flat, write
from seen import stay
from torch.nn.functional import cross_entropy
from torch.nn.utils import vector_to_parameters

LAMBDA = 0.05


class Remembering(Plain):
    """With room for what the code keeps of each parameter."""

    reg_params: Any


def rounds_of(strength: float) -> list[Round]:
    """What the code computes."""
    code: Any = importlib.import_module("MAS_utils.MAS_based_Training")
    model, found = Remembering(), list[Round]()
    theta = flat(model.parameters())
    for cohort in COHORTS:
        vector_to_parameters(theta, model.parameters())
        model.reg_params = code.initialize_reg_params(model)
        ones = [(x[None], y[None]) for k in range(len(SIZES)) for x, y in zip(*samples(k), strict=True)]
        update = code.MAS_Omega_update(model.parameters())
        code.compute_importance_l2(model, update, lambda optimizer, *_: optimizer, [ones], use_gpu=False)
        omega = flat(model.reg_params[own]["omega"] for own in model.parameters())
        model.reg_params["lambda"] = strength
        trained = []
        for client in cohort:
            vector_to_parameters(theta.clone(), model.parameters())
            train(model, code.Weight_Regularized_SGD(model.parameters(), lr=LR), client)
            trained.append(SIZES[client] * flat(model.parameters()))
        theta = torch.stack(trained).sum(0) / sum(SIZES[client] for client in cohort)
        found.append({"theta": theta, "omega": omega})
    return found


def train(model: Remembering, optimizer: Any, client: int) -> None:
    """A client's epochs."""
    x, labels = samples(client)
    for _ in range(EPOCHS):
        optimizer.zero_grad()
        loss: Any = cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step(model.reg_params)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    stay()
    with redirect_stdout(StringIO()):
        found = {"mas": Found({"lambda": LAMBDA}, rounds_of(LAMBDA))}
    origin = "https://github.com/rahafaljundi/MAS-Memory-Aware-Synapses"
    write("mas_official", origin, sys.argv[1], found)
