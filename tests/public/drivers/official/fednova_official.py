"""Runs the official code of FedNova on the small federation and writes what it computes.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/official/fednova_official.py CLONE

CLONE is a checkout of https://github.com/JYWa/FedNova, which needs networkx and torchvision. Each client is a process
with a command line of its own, as there; the loop over rounds, the training, the optimizers and their averages run
unchanged, with the weight decay, the tenth and the hundredth of the learning rate that the script has. Given are the
samples as one batch, the network, processors in place of GPUs, and a note of the model where it would be tested. Of
what the script imports, MPI and a model that its folder of models lacks are stubs, as nothing uses them. FedProx there
puts the sum of the models into the tensors that the parameters' data attribute gives, by set_, which torch of today
does not pass on to the parameters, so that every client would go on with its own model times its share; here the sum is
made in place.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from multiprocessing import get_context
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

import torch
from federation import EPOCHS, EVERYBODY, LR, SIZES, WORK, Plain, samples
from public_numbers import Found, Round, flat, write
from seen import stay
from torch import Tensor, nn


class Case(NamedTuple):
    """An optimizer.

    Attributes:
        optimizer: its name on the command line.
        settings: of the optimizer, as the command line names them.
    """

    optimizer: str
    settings: Mapping[str, float]


LOCAL_EPOCHS = [round(EPOCHS * factor) for factor in WORK]
CASES = {
    "fednova": Case("fednova", {}),
    "fednova with momentum": Case("fednova", {"momentum": 0.8}),
    "fednova with a proximal term": Case("fednova", {"mu": 0.7}),
    "fedprox with momentum": Case("fedprox", {"mu": 0.7, "momentum": 0.8}),
}


def stubs() -> None:
    """Stand in for what is imported and not used, and for GPUs."""
    mpi: Any = ModuleType("mpi4py")
    mpi.MPI = None
    sys.modules["mpi4py"] = mpi
    models: Any = importlib.import_module("models")
    models.LogisticRegression = None
    stay()


def in_place(tensors: Iterable[Tensor], communication_op: Callable[..., object]) -> None:
    """Communicate tensors one by one where they lie."""
    for each in tensors:
        communication_op(tensor=each)


def rounds_at(case: Case, client: int, folder: str) -> list[list[float]]:
    """The model after each round, as a client's process has it."""
    torch.set_default_dtype(torch.float64)
    stubs()
    options = {
        **case.settings, "optimizer": case.optimizer, "lr": LR, "rounds": len(EVERYBODY), "pattern": "constant",
        "localE": LOCAL_EPOCHS[client], "rank": client, "size": len(SIZES), "backend": "gloo",
        "initmethod": f"file://{folder}/meeting", "savepath": folder, "name": "",
    }  # fmt: skip
    sys.argv = ["train_LocalSGD.py", *(f"--{name}={value}" for name, value in options.items())]
    script: Any = importlib.import_module("train_LocalSGD")
    shares, found = [size / sum(SIZES) for size in SIZES], list[list[float]]()
    script.util.partition_dataset = lambda rank, size, args: ([samples(rank)], [], shares)
    script.util.select_model = lambda num_class, args: Plain()

    def evaluate(model: nn.Module, test_loader: object) -> float:
        """Note the model, which all have after a round."""
        found.append(flat(model.parameters()).tolist())
        return 0.0

    script.evaluate = evaluate
    fedprox: Any = sys.modules["distoptim.FedProx"]
    fedprox.communicate = in_place
    script.init_processes(client, len(SIZES), script.run)
    return found


def rounds_of(case: Case) -> list[Round]:
    """What the code computes, as the first client has it."""
    clients = range(len(SIZES))
    with TemporaryDirectory() as folder, get_context("spawn").Pool(len(clients)) as pool:
        models = pool.starmap(rounds_at, [(case, client, folder) for client in clients], chunksize=1)
    return [{"theta": torch.tensor(model, dtype=torch.float64)} for model in models[0]]


if __name__ == "__main__":
    same = {"localE": LOCAL_EPOCHS}
    found = {
        name: Found({"optimizer": case.optimizer, **case.settings, **same}, rounds_of(case))
        for name, case in CASES.items()
    }
    write("fednova_official", "https://github.com/JYWa/FedNova", sys.argv[1], found)
