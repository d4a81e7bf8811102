"""Runs methods of FL-bench on the small federation and writes what they compute.

    PYTHONPATH=tests/public:CLONE python tests/public/drivers/libraries/fl_bench.py CLONE

CLONE is a checkout of https://github.com/KarhouTam/FL-bench, which needs hydra-core, nvidia-ml-py, ray and torchvision.
Its servers, its clients, its trainer and its loop over rounds run unchanged. Given are the network and the samples,
whose division the library reads of a file, a learning rate and its momentum, whose turn it is, batches of all samples
of a client, and a note of the state where figures would be shown. FedDyn leaves alpha / 2 ||theta||^2 of its objective
to the weight decay of the optimizer, which therefore is alpha. FedOpt's second moment begins at tau squared, as
Algorithm 2 of Reddi et al. has it, and not at zero. FedRoD's server and clients name the parameters differently, so
that no client would ever receive the global model; here the server names them as the clients do.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch
from federation import CLASSES, COHORTS, EPOCHS, EVERYBODY, LR, SIZES, FixedBase, Network, Normed, samples
from public_numbers import Found, Round, flat, write
from torch import Tensor

NAME = "small"
"""Of the data and of the network."""


class Case(NamedTuple):
    """A server of the library.

    Attributes:
        method: its module.
        server: its class.
        settings: of the method, as the library's command line names them.
        state: what the server knows after a round.
        optimizer: of the clients, beside its rate.
        keep: whether clients go on with what their optimizer remembers.
        begin: what is done to the server before its first round.
        cohorts: who trains in which round.
        make: the network.
    """

    method: str
    server: str
    settings: Mapping[str, float | str]
    state: Callable[[Any], Round]
    optimizer: Mapping[str, float] = {}
    keep: bool = False
    begin: Callable[[Any], None] = lambda server: None
    cohorts: Sequence[Sequence[int]] = COHORTS
    make: Callable[[], Network] = Network


def theta(server: Any) -> Round:
    """The global model."""
    return {"theta": flat(server.public_model_params.values())}


def of_trained(server: Any, name: str, own: Callable[[int], Tensor]) -> Round:
    """A vector of every client that has trained."""
    return {f"client {k}: {name}": own(k) for k, known in server.client_metrics.items() if known}


def feddyn(server: Any) -> Round:
    """What the library calls nabla is -g_k / alpha."""
    g = -server.args.feddyn.alpha * server.nabla
    return theta(server) | {"h": g.mean(0)} | of_trained(server, "g", lambda k: g[k])


def fedavgm(server: Any) -> Round:
    state = server.global_optmizer.state.values()
    return theta(server) | {"v": flat(own["momentum_buffer"] for own in state)}


def fedopt(server: Any) -> Round:
    rule = server.adaptive_optimizer
    return theta(server) | {"m": flat(rule.momentums), "v": flat(rule.velocities)}


def part(server: Any, name: str) -> Tensor:
    """Of the global model."""
    return flat(own for full, own in server.public_model_params.items() if name in full.split("."))


def fedper(server: Any) -> Round:
    own = server.clients_personal_model_params
    return {"theta: base": part(server, "base")} | of_trained(server, "head", lambda k: flat(own[k].values()))


def statistics(server: Any) -> Round:
    """The global model, and what BatchNorm has counted at the clients."""
    own = server.clients_personal_model_params
    names = [f"base.bn.running_{name}" for name in ("mean", "var")]
    found = of_trained(server, "running_statistics", lambda k: flat(own[k][name] for name in names))
    return {"theta: base": part(server, "base"), "theta: head": part(server, "classifier")} | found


def heads(server: Any) -> Round:
    """What is trained of the global model."""
    return {"theta": part(server, "classifier")}


def names_of_clients(server: Any) -> None:
    """Name the global model's parameters as the clients do."""
    own = server.public_model_params
    server.public_model_params = type(own)((f"generic_model.{name}", each) for name, each in own.items())


def second_moment(server: Any) -> None:
    """Begin as the paper does."""
    for own in server.adaptive_optimizer.velocities:
        own.fill_(server.args.fedopt.tau**2)


def moon(server: Any) -> Round:
    last = server.clients_prev_model_params
    return theta(server) | of_trained(server, "previous", lambda k: flat(last[k].values()))


def ditto(server: Any) -> Round:
    own = server.clients_personalized_model_params
    return theta(server) | of_trained(server, "v", lambda k: flat(own[k].values()))


ALPHA = 0.3
ADAPTIVE = {"server_lr": 0.03, "beta1": 0.8, "beta2": 0.7, "tau": 0.02}
DYN = {"alpha": ALPHA, "max_grad_norm": 1e9}
ROD = {"gamma": 0.6, "hyper": 0, "eval_per": 1}
CASES = {
    "feddyn": Case("feddyn", "FedDynServer", DYN, feddyn, {"weight_decay": ALPHA}),
    "feddyn with momentum": Case("feddyn", "FedDynServer", DYN, feddyn, {"weight_decay": ALPHA, "momentum": 0.6}),
    "fedavgm": Case("fedavgm", "FedAvgMServer", {"server_momentum": 0.8}, fedavgm),
    "fedadam": Case("fedopt", "FedOptServer", {"type": "adam", **ADAPTIVE}, fedopt, begin=second_moment),
    "fedyogi": Case("fedopt", "FedOptServer", {"type": "yogi", **ADAPTIVE}, fedopt, begin=second_moment),
    "fedadagrad": Case("fedopt", "FedOptServer", {"type": "adagrad", **ADAPTIVE}, fedopt, begin=second_moment),
    "moon": Case("moon", "MOONServer", {"mu": 2.0, "tau": 0.5}, moon, {"momentum": 0.8}),
    "moon, optimizer kept": Case("moon", "MOONServer", {"mu": 2.0, "tau": 0.5}, moon, {"momentum": 0.8}, keep=True),
    "ditto": Case("ditto", "DittoServer", {"pers_epoch": EPOCHS, "lamda": 0.6}, ditto, {"momentum": 0.8}),
    "fedper, optimizer kept": Case("fedper", "FedPerServer", {}, fedper, {"momentum": 0.8}, True, cohorts=EVERYBODY),
    "fedrod": Case("fedrod", "FedRoDServer", ROD, heads, begin=names_of_clients, make=FixedBase),
    "fedavg, statistics kept": Case("fedavg", "FedAvgServer", {}, statistics, {"momentum": 0.8}, make=Normed),
}


def given(root: Path) -> None:
    """Put the network, the samples and their division where the library looks for them."""
    constants: Any = importlib.import_module("src.utils.constants")
    data: Any = importlib.import_module("data.utils.datasets")
    server: Any = importlib.import_module("src.server.fedavg")
    parts = [samples(client) for client in range(len(SIZES))]
    x, labels = (torch.cat(each) for each in zip(*parts, strict=True))
    data.BaseDataset._rescale_data = lambda self: None  # to [0, 1], where pictures are
    data.DATASETS[NAME] = lambda root, args, **transforms: data.BaseDataset(x, labels, range(CLASSES), **transforms)
    server.HydraConfig = SimpleNamespace(get=lambda: SimpleNamespace(runtime=SimpleNamespace(output_dir=root)))
    server.FLBENCH_ROOT = root
    everybody, own = list(range(len(SIZES))), torch.split(torch.arange(len(labels)), list(SIZES))
    partition = {
        "separation": {"train": everybody, "val": [], "test": [], "total": len(SIZES)},
        "data_indices": [{"train": each.tolist(), "val": [], "test": []} for each in own],
    }
    (root / "data" / NAME).mkdir(parents=True)
    (root / "data" / NAME / "args.json").write_text("{}", encoding="utf-8")
    (root / "data" / NAME / "partition.pkl").touch()
    server.pickle = SimpleNamespace(load=lambda file: partition)
    constants.DEFAULTS["model"] |= {"name": NAME}
    constants.DEFAULTS["dataset"] |= {"name": NAME, "split": "sample"}


def split_network(network: Network) -> Any:
    """The library's kind of model, with a network's base and head."""
    model = importlib.import_module("src.utils.models").DecoupledModel()
    model.base, model.classifier = network.base, network.head
    return model


def options(case: Case) -> Any:
    """The library's defaults, but for the federation's."""
    defaults = importlib.import_module("src.utils.constants").DEFAULTS
    args: Any = importlib.import_module("omegaconf").OmegaConf.create(defaults)
    args.update({"method": case.method, case.method: dict(case.settings)})
    args.optimizer.update({"lr": LR, **case.optimizer})
    args.common.update(
        {
            "global_epoch": len(case.cohorts), "local_epoch": EPOCHS, "batch_size": max(SIZES), "use_cuda": False,
            "reset_optimizer_on_global_epoch": not case.keep, "client_side_evaluation": False, "save_log": False,
            "save_learning_curve_plot": False, "save_metrics": False, "buffers": "local",
        }
    )  # fmt: skip
    args.common.test.client.update({"test": False, "interval": -1})
    return args


def rounds_of(case: Case) -> list[Round]:
    """What the library computes."""
    models = importlib.import_module("src.utils.models").MODELS
    models[NAME] = lambda dataset, pretrained: split_network(case.make())
    server = getattr(importlib.import_module(f"src.server.{case.method}"), case.server)(options(case))
    server.client_sample_stream = [list(cohort) for cohort in case.cohorts]
    found = list[Round]()
    server.display_metrics = lambda: found.append(copied(case.state(server)))
    case.begin(server)
    server.train()
    return found


def copied(state: Round) -> Round:
    """The numbers as they are now."""
    return {name: vector.detach().clone() for name, vector in state.items()}


def settings(case: Case) -> Mapping[str, object]:
    """In the library's words."""
    common = {"reset_optimizer_on_global_epoch": not case.keep, "buffers": "local"}
    return {"server": case.server, **case.settings, **case.optimizer, **common}


if __name__ == "__main__":
    torch.set_default_dtype(torch.float64)
    with TemporaryDirectory() as folder:
        given(Path(folder))
        found = {name: Found(settings(case), rounds_of(case)) for name, case in CASES.items()}
    write("fl_bench", "https://github.com/KarhouTam/FL-bench", sys.argv[1], found)
