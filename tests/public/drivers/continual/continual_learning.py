"""Runs EWC, Online EWC and LwF of van de Ven's library on tasks one after the other and writes what they compute.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/continual/continual_learning.py CLONE

CLONE is a checkout of https://github.com/GMvandeVen/continual-learning, which needs torchvision and tqdm. Its training
on several contexts, its classifier with its losses and penalties, and its Fisher information run unchanged. Given are
the layers of the classifier, SGD, and loaders, which have a batch of all samples of a round's cohort. The Fisher
information is measured at the model that was there before the context's last step, and the penalty's centre is the one
behind it. The library divides the sum over n samples by n - 1 unless it ends at so many that it was told of; so the
loader has one behind the last that it is told of, which it leaves alone.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from federation import FEATURES, HIDDEN, LR, Network, Samples
from pooled import CLASSES, OF_TASK, TURNS, classes_of, pooled
from public_numbers import Found, Round, at, flat, write
from torch import Tensor
from torch.utils.data import DataLoader

TASKS = CLASSES // OF_TASK
EWC = {"weight_penalty": True, "reg_strength": 4.0, "classes_per_context": OF_TASK}
CASES: Mapping[str, Mapping[str, object]] = {
    "ewc": {**EWC, "offline": True, "fisher_labels": "true", "scenario": "task"},
    "ewc, one head": {**EWC, "offline": True, "fisher_labels": "all", "scenario": "class", "neg_samples": "all"},
    "online ewc": {**EWC, "gamma": 0.6, "fisher_labels": "all", "scenario": "task"},
    "online ewc, one head": {**EWC, "gamma": 0.6, "fisher_labels": "true", "scenario": "class", "neg_samples": "all"},
    "lwf": {
        "replay_mode": "current", "replay_targets": "soft", "lwf_weighting": True, "KD_temp": 3.0,
        "classes_per_context": OF_TASK, "scenario": "task",
    },
}  # fmt: skip
"""Attributes of the library's classifier."""


class Rounds(NamedTuple):
    """A task as the library's data set: what the cohort of each round has of it."""

    batches: Sequence[Samples]


def loader(task: Rounds, batch_size: int, **_: object) -> DataLoader[Any]:
    """A batch for each round; in batches of 1 the last round's samples, and one behind them."""
    x, labels = task.batches[-1]
    ones = [(x[[i]], labels[[i]]) for i in [*range(len(labels)), 0]]
    batches: Any = ones if batch_size == 1 else task.batches
    return DataLoader(batches, batch_size=None)


def classifier(settings: Mapping[str, object], network: Network, **sgd: Any) -> Any:
    """The library's, of this federation's layers, with options of SGD."""
    library, outputs = importlib.import_module("models.classifier"), network.head.out_features
    new = library.Classifier(1, FEATURES, outputs, fc_layers=2, fc_units=HIDDEN)
    new.fcE, new.classifier = network.base, network.head
    new.fcE.frozen = False
    new.optimizer, new.optim_type = torch.optim.SGD(new.parameters(), lr=LR, **sgd), "sgd"
    for name, value in settings.items():
        assert hasattr(new, name)
        setattr(new, name, value)
    return new


def with_fisher_before_the_last_step(model: Any) -> None:
    """The library's own functions, called where this program measures and centres."""
    train, estimate = model.train_a_batch, model.estimate_fisher
    received = flat(model.parameters())

    def train_a_batch(*args: Any, **more: Any) -> Any:
        nonlocal received
        received = flat(model.parameters())
        return train(*args, **more)

    def estimate_fisher(task: Rounds, allowed_classes: Any = None) -> None:
        model.fisher_n = len(task.batches[-1][1]) - 1
        with at(model, received):
            estimate(task, allowed_classes)
        number = model.context_count if model.offline else ""
        for name, own in model.named_parameters():
            model.register_buffer(f"{name.replace('.', '__')}_EWC_prev_context{number}", own.detach().clone())

    model.train_a_batch, model.estimate_fisher = train_a_batch, estimate_fisher


def fisher(model: Any) -> Tensor:
    """The sum over all contexts so far."""
    numbers = range(1, model.context_count + 1) if model.offline else [""]
    names = [name.replace(".", "__") for name, _ in model.named_parameters()]
    of_each = [flat(getattr(model, f"{name}_EWC_estimated_fisher{i}") for name in names) for i in numbers]
    return torch.stack(of_each).sum(0)


def rounds_of(settings: Mapping[str, object]) -> list[Round]:
    """What the library computes."""
    training: Any = importlib.import_module("train.train_task_based")
    learner: Any = importlib.import_module("models.cl.continual_learner")
    training.get_data_loader = learner.get_data_loader = loader
    model, found = classifier(settings, Network(num_classes=CLASSES)), list[Round]()
    with_fisher_before_the_last_step(model)

    def after_step(*_: object, **__: object) -> None:
        found.append({"theta": flat(model.parameters())})

    def after_context(*_: object, context: int) -> None:
        if model.weight_penalty and context < TASKS:
            found[-1]["fisher"] = fisher(model)

    tasks = [Rounds([pooled(cohort, classes_of(task)) for cohort in TURNS]) for task in range(TASKS)]
    training.train_cl(model, tasks, iters=len(TURNS), batch_size=2, loss_cbs=[after_step], context_cbs=[after_context])
    return found


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    found = {name: Found(settings, rounds_of(settings)) for name, settings in CASES.items()}
    write("continual_learning", "https://github.com/GMvandeVen/continual-learning", sys.argv[1], found)
