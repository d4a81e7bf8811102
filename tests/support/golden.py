"""The bits that short runs end with, kept in golden.json so that no change of them goes unseen.

`python tests/support/golden.py` writes those of this machine anew; the changelog says why. They hold on one type of
processor and for one version of torch; a file of several holds those of each.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import platform
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path

import own_models
import torch

from fl_ddp import simulate
from fl_ddp.results.metrics import OF_TASKS_SO_FAR

FILE = Path(__file__).parents[1] / "golden.json"

MAIN: Mapping[str, object] = {"rounds": 5, "compile": False, "figures": False, "device": "cpu"}
"""The main job: defaults, but for its length."""

SHORT: Mapping[str, object] = {
    "data": "digits", "partition": "Dirichlet", "partition.alpha": 0.5, "model": "MLP", "model.hidden": 16,
    "clients": 12, "cohort": 7, "rounds": 3, "local_epochs": 2, "batch_size": 20, "lr_decay": 0.9, "momentum": 0.5,
    "weight_decay": 1e-4, "local_test": 0.2, "lanes": 3, "seed": 5, "compile": False, "figures": False, "device": "cpu",
}  # fmt: skip
"""Ragged clients of which a part takes part, in three groups of which one is padded."""

OF_METHODS: Mapping[str, Mapping[str, object]] = {
    "FedAvg": {},
    "FedProx": {"method.mu": 0.1},
    "FedAvgM": {},
    "FedOpt": {},
    "FedNova": {},
    "Scaffold": {},
    "FedDyn": {},
    "FedCurv": {},
    "FedCurv last_round": {"method.partial": "last_round", "method.kind": "exact", "method.penalty_step": "proximal"},
    "FedCurv sparse": {"method.top_q": 0.2, "method.sparse_delta": True, "method.kind": "mc"},
    "FisherAvg": {},
    "FisherAvg code": {"method.reduction": "batch_mean_sq", "method.fisher_batch": 50, "method.compat_eps": 1e-8},
    "FisherAvg rwalk": {"method.importance": "rwalk", "method.lam": 0.1, "method.interval": 3},
    "FedCL": {},
    "FedCL code": {"method.omega": "per_tensor", "method.missing": "local", "method.every": 2, "method.proxy": 0.1},
    "FedCL si": {"method.omega": "si", "method.missing": "last", "method.every": 2, "method.proxy": 0.1},
    "FedCL mas": {"method.omega": "mas", "method.proxy": 0.1},
    "FedCL global": {"method.omega": "global", "method.missing": "skip", "method.every": 2, "method.proxy": 0.1},
    "FedKA": {},
    "FedKA hard": {"method.strategy": "hard", "method.anchors": 3, "method.gamma": 0.2},
    "FedNTD": {},
    "FedRoD": {},
    "FedALA": {"method.layers": 3},
    "FedFomo": {"method.models": 4},
    "FedPAC": {},
    "FedBN": {"model": f"{own_models.__file__}:Normed"},
    "FedPer": {},
    "FedRep": {"method.head_epochs": 1.5},
    "Ditto": {},
    "LocalOnly": {},
    "MOON": {},
    "FilVer": {
        "model": f"{own_models.__file__}:Embedded", "stream": "ClassGroups", "stream.tasks": 2, "stream.size": 5,
        "stream.task_rounds": 1, "method.sst": 50, "method.store": 100,
    },
    "OnlineEWC": {
        "stream": "ClassGroups", "stream.tasks": 2, "stream.size": 5, "stream.task_rounds": 1, "method.lam": 10.0,
    },
    "LwF": {"stream": "ClassGroups", "stream.tasks": 2, "stream.size": 5, "stream.task_rounds": 1},
    "FedAvg stream": {"stream": "Permuted", "stream.enrolment": "random", "stream.task_rounds": 1, "stream.keep": 0.5},
}  # fmt: skip

Bits = dict[str, str]
"""sha256 of the final parameters, and of metrics.csv without its columns of time and averages over tasks."""


def runs() -> dict[str, Mapping[str, object]]:
    """Settings of all runs by name; the first word of a method's is its class."""
    methods = {name: {**SHORT, "method": name.split()[0], **own} for name, own in OF_METHODS.items()}
    return {"main job": MAIN, **methods}


def machine() -> str:
    """What the bits hold on: the type of processor, what torch uses of it, and torch's version."""
    info = Path("/proc/cpuinfo")
    text = info.read_text() if info.exists() else ""
    words = (re.search(rf"^{name}\s*:\s*(.+)$", text, re.MULTILINE) for name in ("model name", "cpu family", "model"))
    model, family, number = (found[1] if found else platform.machine() for found in words)
    capability = torch.backends.cpu.get_cpu_capability()
    return f"{model} (family {family}, model {number}, {capability}), torch {torch.__version__.partition('+')[0]}"


def bits(settings: Mapping[str, object]) -> Bits:
    """Make a run, on one thread, and hash what it leaves."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with tempfile.TemporaryDirectory() as out:
            summary = simulate({**settings, "out": out, "name": "run"})
            with Path(out, "run", "metrics.csv").open(newline="") as file:
                rows = [{k: v for k, v in row.items() if _is_kept(k)} for row in csv.DictReader(file)]
    finally:
        torch.set_num_threads(before)
    text = io.StringIO()
    table = csv.DictWriter(text, rows[0], lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    metrics = hashlib.sha256(text.getvalue().encode()).hexdigest()
    return {"parameters": str(summary["parameters_sha256"]), "metrics": metrics}


def _is_kept(column: str) -> bool:
    """Whether bits are of a column; averages over tasks are those of tasks.csv and came after most of the bits."""
    return not column.startswith("time") and column not in OF_TASKS_SO_FAR


def stored() -> dict[str, dict[str, Bits]]:
    """What golden.json holds: bits by name of the run, by machine."""
    found: dict[str, dict[str, Bits]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    return found


def main() -> None:
    """Write this machine's bits."""
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    mine = {name: bits(settings) for name, settings in runs().items()}
    FILE.write_text(json.dumps({**stored(), machine(): mine}, indent=1, sort_keys=True) + "\n")
    print(f"{FILE}: {len(mine)} runs on {machine()}")


if __name__ == "__main__":
    main()
