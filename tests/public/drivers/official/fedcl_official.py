"""Runs the official code of FedCL on the small federation and writes what it computes.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/official/fedcl_official.py CLONE

CLONE is a checkout of https://github.com/thu-media/FedCL, which needs prefetch_generator. Its loop over rounds with a
process for each client of a round, the clients' training with momentum and weight decay, both measures of importance,
in the center or of the clients' own, and the average of the models run unchanged. Given are the samples in their
batches, the network, whose turn it is, a learning rate that stays, a processor in place of a GPU, double precision of
the clients' weights, and a note of the model where it would be saved. What writes for TensorBoard is a stub, and so is
the folder of data, which imports a file that it lacks. Processes are forked, so that they have all that is given, too.
"""

from __future__ import annotations

import importlib
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import torch
from federation import CLASSES, COHORTS, EPOCHS, LR, SIZES, Network, Samples, Single, samples
from public_numbers import Found, Round, flat, write
from seen import stay
from torch import Tensor, nn

DEFAULTS = {
    "rounds": len(COHORTS), "lr": LR, "min_lr": LR, "decay_rate": 1.0, "batch_size": max(SIZES), "num_workers": 0,
    "model_dir": "", "fine": "MNIST", "num_locals": len(SIZES), "num_per_rnd": len(COHORTS[0]), "local_epochs": EPOCHS,
    "sample_rate": -1.0, "resume": "", "log_dir": "", "mode": "train", "distr_type": "uniform", "interval": 1,
    "estimate_weights_in_center": False,
}  # fmt: skip
"""Of the code's command line; the smallest learning rate is the first one, so that all are."""


class Case(NamedTuple):
    """A measure of importance.

    Attributes:
        settings: as the code's command line names them.
        make: the network.
        single: the center's samples come in batches of one, not in one batch.
        outputs: over which the measure is a mean; that of all is noted.
    """

    settings: Mapping[str, object]
    make: Callable[[], nn.Module] = Network
    single: bool = True
    outputs: int = 1


CASES = {
    "ewc": Case({"policy": "ewc", "coe": 40.0}),
    "ewc in the center": Case({"policy": "ewc", "coe": 0.5, "estimate_weights_in_center": True}),
    "ewc in the center, every second round": Case(
        {"policy": "ewc", "coe": 150.0, "estimate_weights_in_center": True, "interval": 2}, single=False
    ),
    "ewc in the center, a number a tensor": Case(
        {"policy": "ewc", "coe": 2.0, "estimate_weights_in_center": True}, make=Single
    ),
    "mas in the center, a number a tensor": Case(
        {"policy": "mas", "coe": 0.8, "estimate_weights_in_center": True}, make=Single, outputs=CLASSES
    ),
}


class Allocation:
    """Stands in for the code's data: all samples are the center's, a client's are its own."""

    def __init__(self, single: bool) -> None:
        self.single = single
        self.clients = iter(range(len(SIZES)))

    def create_dataset_for_center(self, *_: object) -> tuple[list[Samples], list[Samples], int]:
        x, labels = (torch.cat(each) for each in zip(*map(samples, range(len(SIZES))), strict=True))
        whole = [(x, labels)]
        ones = [(x[[i]], labels[[i]]) for i in range(len(labels))]
        return ones if self.single else whole, whole, len(labels)

    def create_dataset_for_client(self, *_: object) -> tuple[list[Samples], list[Samples], int]:
        own = samples(next(self.clients))
        return [own], [own], len(own[1])


class LogitsFirst(nn.Module):
    """A network that gives its features last."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features, logits = self.network(x)
        return logits, features


class Turns:
    """Stands in for numpy: shuffling puts the clients of the round in front."""

    def __init__(self) -> None:
        self.array = list
        self.random = self
        self.cohorts: Iterator[Sequence[int]] = iter(COHORTS)
        self.order: list[Any] = []

    def shuffle(self, pool: list[Any]) -> None:
        self.order = self.order or [*pool]
        first = [self.order[k] for k in next(self.cohorts)]
        pool[:] = first + [client for client in self.order if client not in first]


class Silent:
    """Writes nothing for TensorBoard."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def add_scalar(self, *_: object) -> None: ...

    def close(self) -> None: ...


def stubs() -> None:
    """Stand in for TensorBoard, data, GPUs and single precision."""
    board: Any = ModuleType("tensorboardX")
    board.SummaryWriter = Silent
    data: Any = ModuleType("data")
    data.MNISTData = None
    sys.modules.update(tensorboardX=board, data=data)
    stay()
    torch.float = torch.float64


def rounds_of(case: Case) -> list[Round]:
    """What the code computes."""
    script: Any = importlib.import_module("mnist_main")
    for kind in (script.MNISTAgent, script.MNISTTrainer):
        kind.device = property(lambda self: torch.device("cpu"), lambda self, gpu: None)
    script.MNISTModel = lambda: LogitsFirst(case.make())
    script.MNISTData, script.np = lambda *_: Allocation(case.single), Turns()
    options = Namespace(**{**DEFAULTS, **case.settings})
    trainer = script.MNISTTrainer(options)
    trainer.build_local_models(options)
    center, found, measured = trainer.global_agent, list[Round](), Round()
    estimate = center.estimate_weights

    def noted(policy: str) -> Any:
        omega = estimate(policy)
        each = (omega[name].expand_as(own) for name, own in center.model.named_parameters())
        measured["omega"] = case.outputs * flat(each)
        return omega

    def save(*_: object) -> None:
        found.append({"theta": flat(center.model.parameters()), **measured})
        measured.clear()

    center.estimate_weights, center.maybe_save = noted, save
    trainer.train()
    return found


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    stubs()
    found = {name: Found(case.settings, rounds_of(case)) for name, case in CASES.items()}
    write("fedcl_official", "https://github.com/thu-media/FedCL", sys.argv[1], found)
