"""Runs LwF of PyCIL on tasks one after the other and writes what it computes.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/continual/pycil.py CLONE

CLONE is a checkout of https://github.com/G-U-N/PyCIL, which needs scipy and torchvision. Its learner, with its losses,
its optimizer with momentum and its loop over epochs, and its growing network run unchanged. Given are the layers below
the head, what rows of the head begin with, the samples, in batches of all of them, and the constants of the module.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from federation import LR, Network, Normed
from pooled import CLASSES, OF_TASK, classes_of, pooled
from public_numbers import Found, Round, flat, write
from torch import Tensor, nn
from torch.utils.data import DataLoader

EPOCHS = 5
CONSTANTS = {
    "T": 3.0, "lamda": 1.5, "init_epoch": EPOCHS, "epochs": EPOCHS, "init_lr": LR, "lrate": LR,
    "init_milestones": [], "milestones": [], "init_weight_decay": 0.0, "weight_decay": 0.0,
}  # fmt: skip
CASES: dict[str, Callable[..., Network]] = {"lwf": Network, "lwf, BatchNorm": Normed}


class Trunk(nn.Module):
    """The layers below the head."""

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.base, self.out_dim = network.base, network.head.in_features

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"features": self.base(x)}


class Tasks:
    """What a learner is given to learn from: the first client's samples."""

    def get_task_size(self, task: int) -> int:
        return OF_TASK

    def get_dataset(self, classes: Sequence[int], **_: object) -> list[tuple[int, Tensor, Tensor]]:
        x, labels = pooled([0], classes)
        return [*zip(range(len(labels)), x, labels, strict=True)]


def theta(network: Any, start: Network) -> Round:
    """All parameters in this program's order, rows of tasks to come as they are before training; and statistics."""
    rows = network.fc.out_features
    both = zip((network.fc.weight, network.fc.bias), (start.head.weight, start.head.bias), strict=True)
    heads = [torch.cat([own, begun[rows:]]) for own, begun in both]
    running = [own for own in network.convnet.buffers() if own.is_floating_point()]
    return {"theta": flat([*network.convnet.parameters(), *heads, *running])}


def rounds_of(make: Callable[..., Network]) -> list[Round]:
    """What the library computes in each task."""
    lwf: Any = importlib.import_module("models.lwf")
    nets: Any = importlib.import_module("utils.inc_net")
    vars(lwf).update(CONSTANTS, DataLoader=lambda samples, **_: DataLoader(samples, len(samples)))
    start = make(num_classes=CLASSES)
    nets.get_convnet = lambda args, pretrained: Trunk(make(num_classes=CLASSES))
    learner = lwf.LwF({"memory_size": 0, "device": [torch.device("cpu")]})

    def begun(features: int, classes: int) -> Any:
        fc = nets.SimpleLinear(features, classes)
        fc.weight.data, fc.bias.data = (own.data[:classes].clone() for own in (start.head.weight, start.head.bias))
        return fc

    learner._network.generate_fc = begun
    found = []
    for _ in range(CLASSES // len(classes_of(0))):
        learner.incremental_train(Tasks())
        learner.after_task()
        found.append(theta(learner._network, start))
    return found


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    found = {name: Found(CONSTANTS, rounds_of(make)) for name, make in CASES.items()}
    write("pycil", "https://github.com/G-U-N/PyCIL", sys.argv[1], found)
