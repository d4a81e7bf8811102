"""Methods compute what public implementations of theirs do, whose numbers are in numbers/."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import federation
import numpy as np
import pytest
import torch
from compared_page import PAGE, page
from launching import simulated
from otherwise import NAMES, NOT_COMPARED, OTHERWISE
from public_case import Case
from public_cases import CASES
from public_numbers import NUMBERS as STORED
from safetensors.torch import load_file
from torch import Tensor

from fl_ddp.config import registry

Vectors = Mapping[str, Tensor]
NUMBERS = {
    f"{file.stem}: {case}": found
    for file in STORED.glob("*/*.json")
    for case, found in json.loads(file.read_text(encoding="utf-8"))["cases"].items()
}


def run_of(case: Case, folder: Path) -> Path:
    """The run's folder."""
    parts = [case.samples(k) for k in range(len(federation.SIZES))]
    x, y = (torch.cat(each) for each in zip(*parts, strict=True))
    np.savez(folder / "data.npz", x_train=x.float(), y_train=y, x_test=x.float(), y_test=y)
    clients = torch.split(torch.arange(len(y)), [len(labels) for _, labels in parts])
    (folder / "clients.json").write_text(json.dumps({"clients": [own.tolist() for own in clients]}), encoding="utf-8")
    never = set(range(len(parts))).difference(*case.cohorts)
    turns = enumerate([*case.cohorts, never], 1)  # who is not in the file is there in every round
    there = [f"{k},{t},{t}" for t, cohort in turns for k in cohort]
    (folder / "there.csv").write_text("\n".join(["client,from,to", *there]), encoding="utf-8")
    work = [f"{k},{factor}" for k, factor in enumerate(case.work)]
    (folder / "work.csv").write_text("\n".join(["client,factor", *work]), encoding="utf-8")
    options = {
        "data": folder / "data.npz", "partition": "FromFile", "partition.path": folder / "clients.json",
        "availability": folder / "there.csv", "client_work": folder / "work.csv", "clients": len(parts),
        "model": f"{federation.__file__}:{case.network}", "lr": federation.LR, "local_epochs": federation.EPOCHS,
        "rounds": len(case.cohorts), "batch_size": max(len(own) for own in clients), "lanes": 2, "compile": False,
        "figures": False, "device": "cpu", "checkpoint_every": 1, "keep_checkpoints": len(case.cohorts), "name": "run",
    }  # fmt: skip
    given = {key: str(value) if isinstance(value, Path) else value for key, value in options.items()}
    return simulated({**given, **case.options}, folder)


def left(run: Path, round: int) -> Vectors:
    """What a run's checkpoint has of a round, by the names of numbers/."""
    folder = run / "checkpoints" / f"round_{round:06d}"
    file = folder / "memory.0.safetensors"
    memory = load_file(file) if file.exists() else {"ids": torch.arange(0)}
    of_clients = {
        f"client {k}: {name}": own[place] for place, k in enumerate(memory.pop("ids")) for name, own in memory.items()
    }
    return load_file(folder / "server.safetensors") | of_clients


def part(found: Vectors, what: str, network: str) -> Tensor:
    """A vector by its name; `theta: base` is what theta has of the parameters base.*."""
    name, _, layer = what.partition(": ")
    if name != "theta" or not layer:
        return found[what].double().flatten()
    names = [name for name, own in getattr(federation, network)().named_parameters() for _ in range(own.numel())]
    parameters = found["theta"][: len(names)]  # behind them are running statistics
    return torch.stack([x for name, x in zip(names, parameters, strict=True) if name.startswith(layer)]).double()


AT_ONCE = {
    "pfllib: scaffold", "pfllib: fedper", "pfllib: fedbn", "pfllib: ditto", "fl_bench: feddyn", "fl_bench: moon",
    "flower: fedadam", "fluke_fl: fedala", "fluke_fl: fedrod", "openfl_fedcurv: fedcurv, cohorts",
    "importance_ewc: both", "fedcl_official: ewc in the center", "fedpac_official: one weight is cut",
    "continual_learning: lwf", "continual_learning: online ewc",
}  # fmt: skip
"""What the default suite has of them; closed forms and the reference simulator have every method."""


@pytest.mark.parametrize(
    "name", [name if name in AT_ONCE else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_a_method_computes_what_a_public_implementation_does(name: str, tmp_path: Path) -> None:
    run, told = run_of(CASES[name], tmp_path), NUMBERS[name]["rounds"]
    assert len(told) == len(CASES[name].cohorts) and all(told)
    for t, expected in enumerate(told, 1):
        found = left(run, t)
        for what, vector in expected.items():
            theirs = torch.tensor(vector, dtype=torch.float64)
            ours = part(found, what, CASES[name].network)
            assert ours.shape == theirs.shape
            assert float((ours - theirs).abs().max()) <= CASES[name].exact, f"{what} after round {t}"


def test_all_numbers_are_looked_at() -> None:
    assert NUMBERS.keys() == CASES.keys() and CASES.keys() >= AT_ONCE


def test_the_page_is_of_these_cases() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "PYTHONPATH=tests/public python tests/public/compared_page.py"
    told = {(str(case.options["method"]), name.partition(": ")[0]) for name, case in CASES.items()}
    noted = {(method, file) for method, notes in OTHERWISE.items() for file in notes}
    assert noted <= told and NAMES.keys() == {file for _, file in told}
    readme = (PAGE.parents[1] / "README.md").read_text(encoding="utf-8")
    assert f"All methods but {' and '.join(NOT_COMPARED)} (" in readme
    assert NOT_COMPARED.keys() == registry.known("method").keys() - {method for method, _ in told}
