"""The same bits on any number of ranks, from the command line and from a notebook."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from launching import SMALL, SUPPORT, Numbers, finished, launched, numbers, simulated
from safetensors.torch import load_file

from fl_ddp import simulate
from fl_ddp.models.mlp import MLP

CASES: Mapping[str, Mapping[str, object]] = {
    "ragged_clients": {"local_epochs": 1.5, "lr_decay": 0.9, "weight_decay": 0.01, "eval_every": 2, "lanes": 3},
    "client_memory_and_several_test_batches": {"method": "Scaffold", "data": "many.npz"},
    "dropout": {"model": "PflCNN", "local_steps": 2, "rounds": 2},
    "curvature": {"method": "FedCurv", "method.partial": "last_round", "method.top_q": 0.5},
    "fisher_weights": {"method": "FisherAvg", "method.importance": "rwalk", "method.lam": 1.0, "local_test": 0.2},
    "proxy_data": {"method": "FedCL", "method.every": 2, "method.missing": "local", "method.proxy_batch": 4},
    "own_heads": {"method": "FedPer", "local_test": 0.3, "eval_every": 2},
    "fewer_clients_than_lanes": {"clients": 5, "cohort": 4, "lanes": 8},
    "odd_widths": {"model.hidden": "[33,17]"},
    "a_projection": {"model.hidden": 9, "model.projection": 6, "local_test": 0.2},
    "no_rounds": {"rounds": 0},
}
RESUMED: Mapping[str, object] = {**SMALL, "method": "Scaffold", "rounds": 5, "name": "resumed"}


@pytest.fixture(scope="module")
def npz(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A data set of one's own whose test set takes four batches, the last one short."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("npz") / "many.npz"
    x = rng.normal(size=(3900, 6)).astype(np.float32)
    y = x[:, :3].argmax(1)
    np.savez(path, x_train=x[:400], y_train=y[:400], x_test=x[400:], y_test=y[400:])
    return str(path)


def settings_of(case: str, npz: str) -> dict[str, object]:
    settings = {**SMALL, **CASES[case], "name": case}
    if "data" in CASES[case]:
        settings["data"] = npz
    if "model" in settings:
        del settings["model.hidden"]
    return settings


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory, npz: str) -> dict[str, Numbers]:
    out = tmp_path_factory.mktemp("alone")
    cases = {case: numbers(simulated(settings_of(case, npz), out)) for case in CASES}
    return {**cases, "resumed": numbers(simulated(RESUMED, out))}


@pytest.fixture(scope="module", params=[2, 3, 4])
def together(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, npz: str) -> dict[str, Numbers]:
    folder = tmp_path_factory.mktemp("together")
    resumed = {"resume": str(simulated({**RESUMED, "rounds": 2}, folder)), "rounds": RESUMED["rounds"]}
    several([*({**settings_of(case, npz), "out": str(folder)} for case in CASES), resumed], request.param, folder)
    return {name: numbers(folder / name) for name in (*CASES, "resumed")}


def several(settings: Sequence[Mapping[str, object]], ranks: int, folder: Path) -> None:
    """Make several runs by one script under one torchrun."""
    runs = folder / "runs.json"
    runs.write_text(json.dumps(settings))
    script = SUPPORT / "several_runs.py"
    with launched([str(script), str(runs)], ranks, folder) as launch:
        ended = launch.ended()
    assert ended.code == 0, ended.err[-3000:]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_bits_do_not_depend_on_ranks(alone: dict[str, Numbers], together: dict[str, Numbers], case: str) -> None:
    assert together[case] == alone[case]


@pytest.mark.slow
def test_resumed_on_other_ranks_re_deals_client_memory(alone: dict[str, Numbers], together: dict[str, Numbers]) -> None:
    assert together["resumed"] == alone["resumed"]


@pytest.mark.slow
def test_cases_are_different_runs(alone: dict[str, Numbers]) -> None:
    assert len({alone[case].parameters for case in CASES}) == len(CASES)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "threads"), [(2, None), (1, {"OMP_NUM_THREADS": "2"})])
def test_command_line_and_notebook_give_the_same_bits_whatever_the_threads(
    tmp_path: Path, ranks: int, threads: Mapping[str, str] | None
) -> None:
    # a convolution's weight gradient is cut by the number of threads, if it has several
    settings = {**SMALL, **CASES["dropout"]}
    del settings["model.hidden"]
    notebook = numbers(simulated(settings, tmp_path / "notebook"))
    out = tmp_path / "line"
    ended = finished({**settings, "out": out}, ranks, tmp_path, threads)
    assert numbers(out / "run") == notebook
    assert ended.out.count("accuracy per class") == 1 and f"tensorboard --logdir {out}" in ended.out


@pytest.mark.slow
@pytest.mark.parametrize("method", ["Scaffold", "FisherAvg"])
def test_compiled_bits_do_not_depend_on_ranks(tmp_path: Path, method: str) -> None:
    # enough parameters for the sums to be compiled too
    settings = {**SMALL, "compile": True, "model.hidden": 64, "method": method}
    finished({**settings, "out": tmp_path}, 2, tmp_path)
    assert numbers(tmp_path / "run") == numbers(simulated(settings, tmp_path / "alone"))


@pytest.mark.slow
@pytest.mark.data
def test_real_data_give_the_same_bits_on_two_ranks_and_are_learnt(tmp_path: Path) -> None:
    common = {"data.root": os.environ["FL_DDP_DATA"], "compile": False, "figures": False, "device": "cpu"}
    mnist = {"data": "MNIST", "partition": "IID", "clients": 100, "participation": 0.1, "local_steps": 20, "rounds": 5}
    cifar = {"data": "CIFAR10", "model": "LeNet5", "clients": 50, "cohort": 6, "local_steps": 2, "rounds": 2}
    runs = {"mnist": {**common, **mnist}, "cifar": {**common, **cifar, "eval_every": 2}}
    several([{**settings, "name": name, "out": str(tmp_path)} for name, settings in runs.items()], 2, tmp_path)
    for name, settings in runs.items():
        assert numbers(tmp_path / name) == numbers(simulated({**settings, "name": name}, tmp_path / "alone"))
    assert json.loads((tmp_path / "mnist" / "summary.json").read_text())["accuracy"] > 0.7


def test_no_rounds_write_the_initial_model_and_the_partition(tmp_path: Path) -> None:
    summary = simulate({**SMALL, "rounds": 0, "out": str(tmp_path)})
    module = MLP(in_shape=(1, 8, 8), num_classes=10, hidden=16)
    model = load_file(tmp_path / "run" / "model.safetensors")
    assert {name: t.shape for name, t in model.items()} == {name: t.shape for name, t in module.state_dict().items()}
    module.load_state_dict(model)
    clients = json.loads((tmp_path / "run" / "partition.json").read_text())["clients"]
    assert sorted(index for client in clients for index in client) == list(range(1437))
    assert summary["rounds"] == 0 and not (tmp_path / "run" / "checkpoints").exists()
