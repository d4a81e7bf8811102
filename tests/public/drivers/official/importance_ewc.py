"""Runs the official code of "importance from agent" on the small federation and writes what it computes.

    PYTHONPATH=tests/public:CLONE/src python tests/public/drivers/official/importance_ewc.py CLONE

CLONE is a checkout of the branch ewc of https://github.com/mjmjeong/AML-XAI-Project, which needs torchvision and tqdm.
Its script, with the loop over rounds, the local training and its momentum of 0.5, the Fisher information, and the
averages, runs unchanged. Given are the samples, in the order in which they are, the network, whose turn it is and for
how many epochs, processors in place of GPUs, and a note of the model where it would be tested. The script trains on
four fifths of a client's samples, so each has a few again behind its own. What it logs to, tensorboardX and wandb, are
stubs.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import chdir
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from federation import CLASSES, COHORTS, EPOCHS, LATER, LR, SIZES, Plain, Samples, alike, blind, samples
from public_numbers import Found, Round, flat, write
from seen import stay
from torch import Tensor, nn
from torch.utils.data import DataLoader


class Case(NamedTuple):
    """A local and a global update.

    Attributes:
        settings: of the script's command line.
        cohorts: who trains in which round.
        epochs: of each round.
        samples: of a client.
        state: names of what the script knows after a round, beside the model, and what it calls them.
    """

    settings: Mapping[str, object]
    cohorts: Sequence[Sequence[int]] = COHORTS
    epochs: Sequence[int] = (EPOCHS,) * 3
    samples: Callable[[int], Samples] = samples
    state: Mapping[str, str] = {"fisher": "global_fisher"}


def updates(
    local: str, average: str, kept: str = "gamma", batch: int = max(SIZES), **more: object
) -> dict[str, object]:
    """Of the command line: the two updates, what is kept of the Fisher information, and samples in its batches."""
    options = {"local_update": local, "global_update": average, "fisher_update_type": kept, "fisher_bs": batch}
    return {**options, "gamma": 0.6, **more}


NORMED = "normalized_weighted_avg"
CASES = {
    "base": Case(updates("base", "avg")),
    # its penalty is off in the first round, in which these clients' only step is none from the received model
    "l2": Case(updates("l2", "avg", ewc_lambda=0.7), LATER, (1, 3, 3), state={}),
    "ewc": Case(updates("ewc", "avg", ewc_lambda=8.0)),
    "ewc, single samples": Case(updates("ewc", "avg", batch=1, ewc_lambda=2.0)),
    # samples of a client are the same, so that it is nothing which of them are a batch
    "ewc, smaller last batches": Case(updates("ewc", "avg", batch=4, ewc_lambda=2.0), samples=alike),
    "weighted average": Case(updates("base", NORMED)),
    "weighted average, unknown coordinates": Case(updates("base", NORMED), samples=blind),
    "weighted average, no norm": Case(updates("base", "weighted_avg")),
    "both": Case(updates("ewc", NORMED, ewc_lambda=8.0)),
    "both, single samples": Case(updates("ewc", NORMED, batch=1, ewc_lambda=2.0)),
    "both, no norm": Case(updates("ewc", "weighted_avg", ewc_lambda=8.0)),
    "both, own": Case(updates("ewc", NORMED, "own", ewc_lambda=8.0)),
    "both, summation": Case(updates("ewc", NORMED, "summation", ewc_lambda=8.0)),
}


class LogProbabilities(Plain):
    """The network as the script has its own."""

    def forward(self, x: Tensor) -> Any:
        return super().forward(x).log_softmax(1)


def ordered(own: Any, batch_size: int, shuffle: bool) -> DataLoader[Any]:
    """Samples in their order, and one in a batch where a tenth of a few is none."""
    return DataLoader(own, max(batch_size, 1))


def given(case: Case) -> tuple[list[Any], dict[int, list[int]]]:
    """All samples, and the places of each client's, its own before the fifth that is not trained on."""
    everything: list[Any] = []
    places = {}
    for client in range(len(SIZES)):
        x, labels = case.samples(client)
        own = [len(everything) + i for i in range(len(labels))]
        everything += zip(x, labels, strict=True)
        whole = next(length for length in count(len(own)) if int(0.8 * length) == len(own))
        places[client] = own + own[: whole - len(own)]
    return everything, places


def surround() -> None:
    """Stand in for GPUs, for logs, and for the network."""
    board: Any = ModuleType("tensorboardX")
    board.SummaryWriter = lambda folder: board
    board.add_scalar = lambda *_: None
    tracker: Any = ModuleType("wandb")
    tracker.log = lambda told: None
    sys.modules |= {"tensorboardX": board, "wandb": tracker}
    stay("to")
    models: Any = importlib.import_module("models")
    models.MLP = lambda **_: LogProbabilities()


def local_update(case: Case) -> str:
    """Name of the module."""
    name = str(case.settings["local_update"])
    return "update_only_fisher" if name == "base" else name


def rounds_of(clone: str, case: Case, each_round: Callable[[Any, int], None] = lambda main, t: None) -> list[Round]:
    """What the script computes.

    Args:
        clone: where it is.
        case: what it is to run.
        each_round: what is done to the script, as a module, before a round, from 0.
    """
    reader: Any = importlib.import_module("utils")
    draws: Any = np.random
    update: Any = importlib.import_module(f"local_update_set.{local_update(case)}")
    update.DataLoader, found, turns = ordered, list[Round](), enumerate(case.cohorts)
    everything, places = given(case)
    reader.get_dataset = lambda args: (everything, [], places)

    def turn(*_: object, **__: object) -> Sequence[int]:
        """Whose it is."""
        (t, cohort), main = next(turns), sys.modules["__main__"]
        main.args.local_ep = case.epochs[t]
        each_round(main, t)
        return cohort

    def note(args: object, model: nn.Module, test: object) -> tuple[float, float]:
        """What the script knows after each round, and once more in the end."""
        main = sys.modules["__main__"]
        state = {name: flat(getattr(main, theirs).values()) for name, theirs in case.state.items()}
        found.append({"theta": flat(model.parameters()), **state})
        return 0.0, 0.0

    reader.test_inference, draws.choice = note, turn
    options = {
        "gpu": 0, "epochs": len(case.cohorts), "num_users": len(SIZES), "num_classes": CLASSES, "lr": LR,
        "local_bs": max(len(case.samples(client)[1]) for client in range(len(SIZES))), "wandb": 0, "verbose": 0,
        **case.settings,
    }  # fmt: skip
    sys.argv = ["federated_cl_main.py", *(f"--{name}={value}" for name, value in options.items())]
    script = Path(clone).resolve() / "src" / "federated_cl_main.py"
    with TemporaryDirectory() as folder, chdir(folder):
        Path("save/objects").mkdir(parents=True)
        runpy.run_path(str(script), run_name="__main__")
    return found[:-1]


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    surround()
    clone = sys.argv[1]
    found = {name: Found(case.settings, rounds_of(clone, case)) for name, case in CASES.items()}
    write("importance_ewc", "https://github.com/mjmjeong/AML-XAI-Project, branch ewc", clone, found)
