"""Runs LwF and EWC of FACIL on tasks one after the other and writes what they compute.

    PYTHONPATH=tests/public:CLONE/src python tests/public/drivers/continual/facil.py CLONE

CLONE is a checkout of https://github.com/mmasana/FACIL. Its approaches, with their losses, their epochs, their Fisher
information and what they keep at the end of a task, and its network of heads run unchanged. Given are the layers below
the heads, what heads begin with, the samples, and the loop over epochs, in which no validation set chooses a model.
EWC's Fisher information is measured on single samples, and at the model that was there before the task's last round.
The epsilon of LwF's cross-entropy, an argument of it, is 0.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import torch
from federation import LR, Fixed, Network, Normed
from pooled import ALONE, CLASSES, OF_TASK, TURNS, classes_of, pooled
from public_numbers import Found, Round, at, flat, write
from torch import Tensor, nn
from torch.utils.data import DataLoader


class Case(NamedTuple):
    """An approach of the library.

    Attributes:
        approach: its module.
        settings: of it, as the library's command line names them.
        tasks: how many.
        turns: who trains in the rounds of a task.
        epochs: of a round.
        make: the network.
        whole: train the heads of earlier tasks, too, by the optimizer of the library's base class; LwF's and EWC's
            leave them out.
        exemplars: have some, with which the library classifies among all heads and trains them all; these are there
            from the first task on.
        keep: these are all samples of earlier tasks, not merely there.
    """

    approach: str
    settings: Mapping[str, object]
    tasks: int = 3
    turns: Sequence[Sequence[int]] = TURNS
    epochs: int = 1
    make: Callable[..., Network] = Network
    whole: bool = False
    exemplars: bool = False
    keep: bool = False


LWF = {"lamb": 1.5, "T": 3.0}
EWC = {"lamb": 4.0, "alpha": 0.4, "fi_sampling_type": "true"}
CASES = {
    "lwf": Case("lwf", LWF, whole=True),
    "lwf, alone": Case("lwf", LWF, whole=True, turns=ALONE, epochs=2),
    "lwf, BatchNorm": Case("lwf", LWF, whole=True, turns=ALONE, epochs=2, make=Normed),
    "lwf, fixed heads": Case("lwf", LWF, make=Fixed),
    "lwf, exemplars": Case("lwf", LWF, exemplars=True, keep=True),
    "ewc": Case("ewc", EWC, tasks=2),
    "ewc, alone": Case("ewc", EWC, tasks=2, turns=ALONE, epochs=2),
    "ewc, fixed heads": Case("ewc", EWC, make=Fixed, exemplars=True),
}


class Trunk(nn.Module):
    """A network whose head the library takes away."""

    head_var = "head"

    def __init__(self, network: Network) -> None:
        super().__init__()
        self.base, self.head = network.base, network.head

    def forward(self, x: Tensor) -> Any:
        return self.head(self.base(x))


def new_head(net: Any, start: Network) -> None:
    """The next task's, as it is before training."""
    net.add_head(OF_TASK)
    rows, last = classes_of(len(net.heads) - 1), net.heads[-1]
    last.weight.data, last.bias.data = (own.data[rows].clone() for own in (start.head.weight, start.head.bias))
    last.requires_grad_(start.head.weight.requires_grad)


def theta(net: Any, start: Network) -> Round:
    """All parameters in this program's order, those of heads to come as they are before training; and statistics."""
    trained = [*net.model.parameters()]
    if start.head.weight.requires_grad:
        both = ([getattr(head, name) for head in net.heads] for name in ("weight", "bias"))
        begun = (start.head.weight, start.head.bias)
        trained += [torch.cat([*own, b[len(net.heads) * OF_TASK :]]) for own, b in zip(both, begun, strict=True)]
    running = [own for own in net.model.buffers() if own.is_floating_point()]
    return {"theta": flat([*trained, *running])}


def rounds_of(case: Case) -> list[Round]:
    """What the library computes."""
    module: Any = importlib.import_module(f"approach.{case.approach}")
    library: Any = importlib.import_module("approach.incremental_learning").Inc_Learning_Appr
    networks: Any = importlib.import_module("networks.network")
    start = case.make(num_classes=CLASSES)
    net = networks.LLL_Net(Trunk(case.make(num_classes=CLASSES)), remove_existing_head=True)
    exemplars = [None] if case.exemplars else []
    approach: Any = module.Appr(net, "cpu", lr=LR, exemplars_dataset=exemplars, **case.settings)
    if case.approach == "lwf":
        approach.cross_entropy = partial(approach.cross_entropy, eps=0.0)
    found = []
    for task in range(case.tasks):
        while len(net.heads) < (case.tasks if case.exemplars else task + 1):
            new_head(net, start)
        approach.optimizer = library._get_optimizer(approach) if case.whole else approach._get_optimizer()
        for cohort in case.turns:
            received = flat(net.parameters())
            classes = range(classes_of(task).stop) if case.keep else classes_of(task)
            seen: Any = [*zip(*pooled(cohort, classes), strict=True)]
            for _ in range(case.epochs):
                approach.train_epoch(task, DataLoader(seen, len(seen)))
            found.append(theta(net, start))
        if case.approach == "ewc":
            approach.compute_fisher_matrix_diag = partial(fisher, approach, module, received)
        approach.post_train_process(task, DataLoader(seen, 1))
    return found


def fisher(approach: Any, module: Any, received: Tensor, loader: DataLoader[Any]) -> Any:
    """The library's, at other parameters."""
    with at(approach.model, received):
        return module.Appr.compute_fisher_matrix_diag(approach, loader)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    # a folder without __init__.py, which an installed package of its name would hide
    own = sys.modules["datasets"] = ModuleType("datasets")
    own.__path__ = [str(Path(sys.argv[1]) / "src" / "datasets")]
    found = {name: Found({**case.settings}, rounds_of(case)) for name, case in CASES.items()}
    write("facil", "https://github.com/mmasana/FACIL", sys.argv[1], found)
