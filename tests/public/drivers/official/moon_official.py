"""Runs MOON's official code on the small federation and writes what it computes.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/official/moon_official.py CLONE

CLONE is a checkout of https://github.com/QinbinLi/MOON, which needs scikit-learn. Its program runs unchanged, in a
folder that is thrown away. Given are the network, whose features are compared without a projection, the samples, whose
turn it is, batches of all samples of a client, and the CPU for CUDA; nothing is evaluated.
"""

from __future__ import annotations

import importlib
import runpy
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import torch
from federation import COHORTS, EPOCHS, LR, SIZES, TOGETHER, Network, samples
from public_numbers import Found, Round, flat, write
from seen import stay
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

CASES: Mapping[str, Mapping[str, object]] = {
    "moon": {"alg": "moon", "mu": 2.0, "temperature": 0.5, "reg": 0.0005},
    "fedavg with server momentum": {"alg": "fedavg", "server_momentum": 0.6, "reg": 0.0},
    "fedprox": {"alg": "fedprox", "mu": 0.5, "reg": 0.0},
}
OPTIONS = {
    "dataset": "cifar10", "n_parties": len(SIZES), "sample_fraction": 0.75, "epochs": EPOCHS, "lr": LR,
    "use_project_head": 0, "device": "cpu", "logdir": "logs/", "modeldir": "models/", "log_file_name": "small",
}  # fmt: skip
"""Of the program, in every case."""


class Compared(Network):
    """The network, whose features are also what takes the place of their projection."""

    def forward(self, x: Tensor) -> Any:
        features, logits = super().forward(x)
        return features, features, logits


def rounds_of(program: str, cohorts: Sequence[Sequence[int]], settings: Mapping[str, object]) -> list[Round]:
    """What the program computes."""
    x, y = (torch.cat(each) for each in zip(*map(samples, range(len(SIZES))), strict=True))
    own = dict(enumerate(torch.split(torch.arange(len(y)), list(SIZES))))
    turns, found = iter(cohorts), list[Round]()

    def loaders(dataset: str, folder: str, batch: int, test_batch: int, of: Tensor | None = None) -> Any:
        chosen = TensorDataset(x, y) if of is None else TensorDataset(x[of], y[of])
        whole = DataLoader(chosen, len(chosen))
        return whole, whole, chosen, chosen

    def evaluated(model: nn.Module, loader: Any, get_confusion_matrix: bool = False, device: object = None) -> Any:
        # clients' models are evaluated as nn.DataParallel
        if isinstance(model, Compared) and get_confusion_matrix:
            found.append({"theta": flat(model.parameters())})
        return (0.0, None, 0.0) if get_confusion_matrix else (0.0, 0.0)

    importlib.import_module("model").__dict__["ModelFedCon_noheader"] = lambda *args: Compared()
    importlib.import_module("random").__dict__["sample"] = lambda parties, count: next(turns)
    importlib.import_module("utils").__dict__.update(
        partition_data=lambda *args, **options: (x, y, x, y, own, None),
        get_dataloader=loaders,
        compute_accuracy=evaluated,
    )
    options = {**OPTIONS, "comm_round": len(cohorts), **settings}
    sys.argv = [program, *[f"--{name}={value}" for name, value in options.items()]]
    runpy.run_path(program, run_name="__main__")
    return found


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    stay()
    clone = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        found = {
            name: Found(settings, rounds_of(str(clone / "main.py"), TOGETHER if name == "moon" else COHORTS, settings))
            for name, settings in CASES.items()
        }
    write("moon_official", "https://github.com/QinbinLi/MOON", str(clone), found)
