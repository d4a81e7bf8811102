"""Runs FedDyn's official code on the small federation and writes what it computes.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/official/feddyn_official.py CLONE

CLONE is a checkout of https://github.com/alpemreacar/FedDyn. Its loops over rounds, one for each method, and its local
training run unchanged, in a folder that is thrown away. Given are the network, the samples, whose turn it is, batches
of all samples of a client, and double precision.
"""

from __future__ import annotations

import importlib
import sys
import tempfile
from argparse import Namespace
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from federation import COHORTS, EPOCHS, LR, SIZES, Logits, as_many
from public_numbers import Found, Round, flat, write
from seen import numpy_of_doubles, torch_of_doubles
from torch import Tensor
from torch.utils.data import DataLoader


class Case(NamedTuple):
    """A loop over rounds.

    Attributes:
        loop: its function.
        settings: of the method, by the names of the function's arguments.
        saved: name of what the clients know, in what the loop saves.
        model: place of the server's models in what the loop returns.
        state: of what is saved after a round and of who has trained.
    """

    loop: str
    settings: Mapping[str, float]
    saved: str
    model: int
    state: Callable[[Tensor, set[int]], Round]


ALPHA = 0.4


def feddyn(saved: Tensor, trained: set[int]) -> Round:
    """Clients remember -g / alpha."""
    return {f"client {k}: g": -ALPHA * saved[k] for k in trained}


def scaffold(saved: Tensor, trained: set[int]) -> Round:
    """The server's is the last one."""
    return {"c": saved[-1]} | {f"client {k}: c": saved[k] for k in trained}


CASES = {
    "feddyn": Case("train_FedDyn", {"alpha_coef": ALPHA, "epoch": EPOCHS}, "local_param_list", -1, feddyn),
    "scaffold": Case(
        "train_SCAFFOLD", {"n_minibatch": EPOCHS, "global_learning_rate": 0.7}, "state_param_list", 0, scaffold
    ),
}


def rounds_of(case: Case) -> list[Round]:
    """What the loop computes."""
    methods, turns, saved = importlib.import_module("utils_methods"), iter(COHORTS), list[Tensor]()

    def drawn(size: int) -> Any:
        """A number for each client, 0 for whose turn it is and 1 for others."""
        cohort = next(turns)
        return np.array([0.0 if k in cohort else 1.0 for k in range(size)])

    def save(file: str, array: Any) -> None:
        if file.endswith(f"{case.saved}.npy"):
            saved.append(torch.from_numpy(array.copy()))
        np.save(file, array)

    numpy = numpy_of_doubles(random=Namespace(seed=lambda seed: None, uniform=drawn), save=save)
    for module in (methods, importlib.import_module("utils_general")):
        module.__dict__.update(np=numpy, torch=torch_of_doubles(), data=Namespace(DataLoader=in_order))
    x, y = zip(*[(inputs.numpy(), labels.numpy()) for inputs, labels in map(as_many, range(len(SIZES)))], strict=True)
    data = {"clnt_x": x, "clnt_y": y, "tst_x": x[0], "tst_y": y[0], "n_client": len(x)}
    found = getattr(methods, case.loop)(
        Namespace(dataset="synt", name="small", **data), act_prob=0.5, learning_rate=LR, batch_size=len(y[0]),
        com_amount=len(COHORTS), print_per=EPOCHS + 1, weight_decay=0.0, model_func=Logits, init_model=Logits(),
        save_period=1, lr_decay_per_round=1.0, **case.settings,
    )  # fmt: skip
    trained = [{k for cohort in COHORTS[: t + 1] for k in cohort} for t in range(len(COHORTS))]
    states = map(case.state, saved, trained)
    return [{"theta": flat(m.parameters())} | own for m, own in zip(found[case.model], states, strict=True)]


def in_order(samples: Any, batch_size: int, **_: object) -> DataLoader[Any]:
    """Batches that are not shuffled."""
    return DataLoader(samples, batch_size)


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    clone = str(Path(sys.argv[1]).resolve())
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("Output/small").mkdir(parents=True)
        found = {name: Found(case.settings, rounds_of(case)) for name, case in CASES.items()}
    write("feddyn_official", "https://github.com/alpemreacar/FedDyn", clone, found)
