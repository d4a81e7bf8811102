"""Runs Synaptic Intelligence of van de Ven's library as FedCL's measure and penalty, and writes what it computes.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/continual/continual_learning_si.py CLONE

CLONE is a checkout of https://github.com/GMvandeVen/continual-learning, which needs torchvision and tqdm. Its training
on two contexts, its classifier with its surrogate loss, its path integral and what it makes of it run unchanged. A
round of a client is two contexts of its samples: the first one's path gives the importance, and the second one, with
the penalty, begins where the first one did. Given are this beginning, the average of the clients' models, the layers of
the classifier, SGD, and loaders, which have a batch of all samples of a client. No importance is negative here, so that
it does not matter whether it could be.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import torch
from continual_learning import classifier
from federation import COHORTS, EPOCHS, SIZES, Network, samples
from public_numbers import Found, Round, flat, write
from torch import Tensor
from torch.nn.utils import vector_to_parameters
from torch.utils.data import DataLoader

SI = {
    "weight_penalty": True, "importance_weighting": "si", "reg_strength": 0.4, "epsilon": 0.02, "scenario": "domain",
}  # fmt: skip
"""Attributes of the library's classifier."""
CASES: Mapping[str, Mapping[str, float]] = {"si": {}, "si with momentum": {"momentum": 0.4, "weight_decay": 5e-3}}
"""Options of SGD, whose momentum begins at zero in every context."""


def trained(training: Any, sgd: Mapping[str, float], theta: Tensor, client: int) -> Tensor:
    """A client's model after a round."""
    network = Network()
    vector_to_parameters(theta.clone(), network.parameters())
    model = classifier(SI, network, **sgd)

    def after_context(*_: object, context: int) -> None:
        if context == 1:
            vector_to_parameters(theta.clone(), model.parameters())
            model.optimizer.state.clear()
            model.register_starting_param_values()

    contexts = [[samples(client)] * EPOCHS] * 2
    training.train_cl(model, contexts, iters=EPOCHS, batch_size=SIZES[client], context_cbs=[after_context])
    # no relu would change it
    names = [name.replace(".", "__") for name, _ in model.named_parameters()]
    assert all((getattr(model, f"{name}_SI_omega") > 0).all() for name in names)
    return flat(model.parameters())


def loader(context: Any, *_: object, **__: object) -> DataLoader[Any]:
    """The batches that a context is."""
    return DataLoader(context, batch_size=None)


def rounds_of(sgd: Mapping[str, float]) -> list[Round]:
    """What the library computes."""
    training: Any = importlib.import_module("train.train_task_based")
    training.get_data_loader = loader
    theta, found = flat(Network().parameters()), list[Round]()
    for cohort in COHORTS:
        shares = [SIZES[client] / sum(SIZES[k] for k in cohort) for client in cohort]
        models = [trained(training, sgd, theta, client) for client in cohort]
        theta = torch.stack([share * model for share, model in zip(shares, models, strict=True)]).sum(0)
        found.append({"theta": theta})
    return found


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    found = {name: Found({**SI, **sgd}, rounds_of(sgd)) for name, sgd in CASES.items()}
    write("continual_learning_si", "https://github.com/GMvandeVen/continual-learning", sys.argv[1], found)
