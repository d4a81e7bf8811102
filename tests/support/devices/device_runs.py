"""What must hold on a GPU, as functions of the device; on a CPU they show that they work."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from unittest import mock

import pytest
import torch
from importance_bench import bench
from launching import SUPPORT, options
from torch import Tensor, nn

from fl_ddp.check import candidate, rules, runs
from fl_ddp.check.candidate import Candidate, Case
from fl_ddp.check.rules import RULES
from fl_ddp.check.runs import Photograph, unlike_runs
from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine.choices import Convolution
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.importance.fisher import fisher
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.models.cnn import LeNet5
from fl_ddp.models.lstm import CharLSTM
from fl_ddp.models.mlp import MLP
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.run import run

NO_GPU = "there is no GPU here"
GPU = pytest.param("cuda", marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)])
DEVICES = [pytest.param("cpu"), GPU]
SLOW_DEVICES = [pytest.param("cpu", marks=pytest.mark.slow), GPU]

MODELS: Mapping[str, tuple[Callable[..., nn.Module], tuple[int, ...], int]] = {
    "MLP": (MLP, (1, 8, 8), 0),
    "LeNet5": (LeNet5, (3, 16, 16), 0),
    "CharLSTM": (partial(CharLSTM, num_tokens=7, hidden=12), (6,), 7),
}
"""How a model is made, its samples' shape, and how many tokens they are of."""


@contextmanager
def alone_on(device: str) -> Iterator[Ranks]:
    """The checks' one rank is on a device."""
    solo = Ranks(0, 1, torch.device(device, 0) if device == "cuda" else torch.device(device))
    with ExitStack() as stack:
        for module in (runs, candidate, rules):
            stack.enter_context(mock.patch.object(module, "SOLO", solo))
        yield solo


def gaps(name: str, settings: Mapping[str, object], device: str, folder: Path) -> dict[str, str]:
    """What the checks that need one rank alone find wrong with a method on a device, by check."""
    with alone_on(device):
        it = Candidate(Case(f"{name}-{device}", {**settings, "device": device}, folder))
        single = [rule for rule in RULES if not rule.together]
        found = {rule.name: rule.gap(it) for rule in single if not rule.needless(it)}
    return {rule: gap for rule, gap in found.items() if gap}


def unlike_after_resume(settings: Mapping[str, object], device: str, folder: Path) -> str:
    """What a run that is killed in round 2 and goes on does not have in common with one that is not."""
    with alone_on(device) as solo:
        whole, copy = folder / "whole", folder / "killed"
        given = {**runs.SETTINGS, **settings, "device": device, "out": str(folder), "name": "whole"}
        run(from_mapping(given), solo, Photograph(whole, copy))
        run(from_mapping({"resume": str(copy)}), solo, StopRequest())
    return unlike_runs(whole, copy)


def trained(
    model: str, device: str, dtype: torch.dtype, convolution: Convolution | None = None
) -> tuple[Tensor, Tensor]:
    """Parameters [G, P] after local steps of ragged clients, and their Fisher; on the CPU in float64.

    Compiled where a convolution is given.
    """
    make, in_shape, tokens = MODELS[model]
    given = partial(make, in_shape=in_shape, num_classes=3)
    b = bench(given, in_shape, (23, 7), tokens=tokens, dtype=dtype, device=device)
    group, method = b.group([0, 1], 3), FedAvg(b.model)
    if convolution:
        group.workplace = replace(group.workplace, compile=True, convolution=convolution)
    theta = group.train(b.model.init(), method, {}, {}).theta
    information = fisher(group, b.theta(3), b.model, kind="exact")
    return theta.double().cpu(), information.double().cpu()


def hashes_with_cold_caches(settings: Mapping[str, object], device: str, folders: Sequence[Path]) -> list[str]:
    """sha256 of the parameters that compiled runs, each in a process beside the others, end with; caches are apart."""
    with ExitStack() as running:
        processes = [running.enter_context(_compiled_run(settings, device, folder)) for folder in folders]
        assert [process.wait() for process in processes] == [0] * len(folders)
    summaries = [json.loads((folder / "run" / "summary.json").read_text()) for folder in folders]
    return [str(summary["parameters_sha256"]) for summary in summaries]


def _compiled_run(settings: Mapping[str, object], device: str, folder: Path) -> subprocess.Popen[bytes]:
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "TRITON_CACHE_DIR": str(folder / "triton")}
    others = {key: value for key, value in runs.SETTINGS.items() if not key.startswith("model")}
    given = {**others, **settings, "device": device, "compile": True, "out": str(folder), "name": "run"}
    command = [sys.executable, "-m", "fl_ddp.main", *options(given)]
    return subprocess.Popen(command, env=os.environ | caches, stdout=subprocess.DEVNULL)


def run_two_ranks(settings: Mapping[str, object], device: str, folder: Path) -> Path:
    """Folder of a run of two gloo ranks that share a device."""
    given = {**runs.SETTINGS, **settings, "device": device, "out": str(folder), "name": "two"}
    (folder / "settings.json").write_text(json.dumps(given))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    command = [*launcher, str(SUPPORT / "devices" / "shared_device.py"), device, str(folder / "settings.json")]
    subprocess.run(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, check=True, stdout=subprocess.DEVNULL)
    return folder / "two"
