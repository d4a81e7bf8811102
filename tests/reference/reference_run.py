"""A case as a run of the program and as one of the reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import network
import numpy as np
import torch
from ditto import Ditto
from fedala import FedALA
from fedavg import FedAvg
from fedavgm import FedAvgM
from fedbn import FedBN
from fedcl import FedCL
from fedcurv import FedCurv
from feddyn import FedDyn
from fedfomo import FedFomo
from fedka import FedKA
from fednova import FedNova
from fedntd import FedNTD
from fedopt import FedOpt
from fedpac import FedPAC
from fedper import FedPer
from fedprox import FedProx
from fedrep import FedRep
from fedrod import FedRoD
from filver import FilVer
from fisheravg import FisherAvg
from local_training import Model
from localonly import LocalOnly
from lwf import LwF
from moon import MOON
from onlineewc import OnlineEWC
from optimizers import choice_of
from round_loop import Data, Play, Round
from samples import FEATURES, IMAGE, LENGTH, OUTPUTS, TOKENS, located
from scaffold import Scaffold
from schedule import Schedule
from settings import settings_of
from shared_options import BASE, Options
from targets import DATA
from tasks import num_classes, tasks_of
from torch import nn

from fl_ddp.engine.seeds import Purpose, torch_seed

ALL = (
    FedAvg, FedProx, FedAvgM, FedOpt, FedNova, Scaffold, FedDyn, FedCurv, FisherAvg, FedCL, FedNTD, MOON, FedKA,
    LocalOnly, Ditto, FedBN, FedPer, FedRep, FedRoD, FedALA, FedFomo, FedPAC, FilVer, OnlineEWC, LwF,
)  # fmt: skip
METHODS: Mapping[str, type[FedAvg]] = {method.__name__: method for method in ALL}
Division = tuple[Sequence[Sequence[int]], Sequence[Sequence[int]], str]
"""Positions of each client's training samples, and of its own test samples; of which set these are."""


def program_options(case: Options, folder: Path) -> dict[str, object]:
    """A case as options of the program, its samples in a folder."""
    options = {key: value for key, value in {**BASE, **case}.items() if value is not None}
    samples = folder / f"{file_of(options)}.npz"
    del options["samples"]
    return {
        "data": str(samples),
        "partition": "FromFile",
        "partition.path": str(folder / f"{options.pop('division')}.json"),
        "model": f"{network.__file__}:{options.pop('network')}",
        **located(options, folder),
    }


def reference_rounds(case: Options, folder: Path, division: Division) -> list[Round]:
    """A case, played by the reference on the samples in a folder."""
    options = located({**BASE, **case}, folder)
    settings = settings_of(options)
    schedule = Schedule(program_options(case, folder), settings)
    tasks = tasks_of(options, schedule, settings.clients)
    module = module_of(case)
    of_method = {name.removeprefix("method."): v for name, v in options.items() if name.startswith("method.")}
    return Play(
        method=METHODS[options["method"]](**of_method),
        width=next(module.parameters()).element_size(),
        model=Model(module, settings.label_smoothing, settings.loss),
        data=data_of(folder, division, options),
        settings=settings,
        optimizer=choice_of(options),
        schedule=schedule,
        tasks=tasks,
    ).rounds()


def module_of(case: Options) -> nn.Module:
    """The network as a run of the case makes it."""
    options = {**BASE, **case}
    make: type[nn.Module] = getattr(network, options["network"])
    with torch_seed(options["seed"], Purpose.MODEL):
        words = {"num_tokens": TOKENS} if options["samples"] == "words" else {}
        shape = {"words": (LENGTH,), "images": IMAGE}.get(options["samples"], (FEATURES,))
        return make(in_shape=shape, num_classes=num_classes(options, OUTPUTS[loss_of(options)]), **words)


def loss_of(options: Options) -> str:
    """The loss of a case."""
    return str(options.get("loss", "cross_entropy"))


def file_of(options: Options) -> str:
    """The samples of a case: those of its loss, if it names no others."""
    named = options["samples"]
    return DATA[loss_of(options)] if named == BASE["samples"] else str(named)


def data_of(folder: Path, division: Division, options: Options) -> Data:
    """The samples as the program takes them: features in single precision, normalised if asked.

    Tokens stay whole numbers.

    Merged, all samples are divided, and the test set is what the clients keep aside.
    """
    with np.load(folder / f"{file_of(options)}.npz") as arrays:
        x_train, x_test = (torch.from_numpy(arrays[key]) for key in ("x_train", "x_test"))
        y_train, y_test = (torch.from_numpy(arrays[key]) for key in ("y_train", "y_test"))
    if x_train.is_floating_point():
        x_train, x_test = (x.float().double() for x in (x_train, x_test))
    if loss_of(options) != "cross_entropy":
        y_train, y_test = (y.float().double() for y in (y_train, y_test))
    if options.get("data.merge"):
        x_train, y_train = torch.cat([x_train, x_test]), torch.cat([y_train, y_test])
        tested = sorted({i for part in division[1] for i in part})
        x_test, y_test = x_train[tested], y_train[tested]
    if options.get("data.normalize"):
        mean, deviation = x_train.mean(0), x_train.std(0, correction=0)
        x_train, x_test = (x_train - mean) / deviation, (x_test - mean) / deviation
    if options.get("data.mean"):
        mean, deviation = (torch.tensor(options[f"data.{key}"], dtype=torch.float64) for key in ("mean", "deviation"))
        x_train, x_test = (x_train - mean) / deviation, (x_test - mean) / deviation
    return Data(x_train, y_train, x_test, y_test, num_classes(options, OUTPUTS[loss_of(options)]), *division)
