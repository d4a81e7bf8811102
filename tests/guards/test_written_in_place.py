"""Models and methods that write into what they are given leave the run as it is."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from launching import own_model, simulated

from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Info, Tensors, Total


def hash_of(settings: dict[str, object], out: Path) -> object:
    return json.loads((simulated(settings, out) / "summary.json").read_text())["parameters_sha256"]


@pytest.mark.parametrize(
    "looked",
    [
        pytest.param({"eval_every": 1}, marks=pytest.mark.slow),
        {"eval_every": 1, "local_test": 0.3},
        pytest.param({"forgetting_every": 1}, marks=pytest.mark.slow),
    ],
)
def test_a_model_that_limits_its_weights_is_the_same_however_often_it_is_looked_at(
    looked: dict[str, object], tmp_path: Path
) -> None:
    split = {key: value for key, value in looked.items() if key == "local_test"}
    given = {
        **own_model("Limited"),
        "compile": False,
        "figures": False,
        "checkpoint_every": 1,
        "eval_every": 100,
        **split,
    }
    assert hash_of({**given, **looked, "name": "often"}, tmp_path) == hash_of({**given, "name": "once"}, tmp_path)


def last_row(run: Path) -> dict[str, str]:
    with (run / "metrics.csv").open(newline="") as file:
        return [{k: v for k, v in row.items() if not k.startswith("time")} for row in csv.DictReader(file)][-1]


def test_its_scores_are_those_of_any_number_of_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which ranks and threads share."""
    settings = {**own_model("Limited"), "compile": False, "figures": False, "local_test": 0.9, "rounds": 1}
    found = []
    for size in (1000, 90):
        monkeypatch.setattr("fl_ddp.ranks.outputs.BATCH", size)
        row = last_row(simulated({**settings, "name": str(size)}, tmp_path))
        found.append((row["accuracy"], row["initial_accuracy"]))
    assert found[0] == found[1]


def test_statistics_are_estimated_of_a_copy(tmp_path: Path) -> None:
    local = {
        "running_statistics": "local",
        "estimate_statistics": True,
        "local_test": 0.3,
        "compile": False,
        "figures": False,
    }
    given = {**own_model("LimitedNormed"), **local}
    often, once = ({**given, "eval_every": every, "name": f"every{every}"} for every in (1, 100))
    assert hash_of(often, tmp_path) == hash_of(once, tmp_path)


def test_a_model_may_write_into_inputs_that_are_stored_as_they_are(tmp_path: Path) -> None:
    draws = np.random.default_rng(0)
    x, y = draws.random((400, 12), np.float32), draws.integers(0, 10, 400)
    np.savez(tmp_path / "data.npz", x_train=x[:300], y_train=y[:300], x_test=x[300:], y_test=y[300:])
    given = {**own_model("WritesIntoInputs"), "data": str(tmp_path / "data.npz"), "compile": False, "figures": False}
    often, once = (
        last_row(simulated({**given, "eval_every": every, "name": f"every{every}"}, tmp_path)) for every in (1, 100)
    )
    assert often["accuracy"] == once["accuracy"] and often["loss"] == once["loss"]


def in_place(self: FedAvg, server: Tensors, total: Total, info: Info) -> Tensors:
    for name in total.sums.keys() - {"weight"}:
        total.sums[name].div_(total.sums["weight"])
    return server | {"theta": server["theta"].add_(total.sums["delta"].to(server["theta"].dtype))}


def apart(self: FedAvg, server: Tensors, total: Total, info: Info) -> Tensors:
    delta = total.sums["delta"] / total.sums["weight"]
    return server | {"theta": server["theta"] + delta.to(server["theta"].dtype)}


def with_a_gradient(self: FedAvg, server: Tensors, total: Total, info: Info) -> Tensors:
    return apart(self, server | {"theta": server["theta"].requires_grad_()}, total, info)


def test_a_servers_step_may_write_into_the_sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where running statistics are averaged, and if its state knows how it was made."""
    found = []
    for update in (in_place, apart, with_a_gradient):
        monkeypatch.setattr(FedAvg, "server_update", update)
        found.append(
            hash_of({**own_model("Normed"), "compile": False, "figures": False, "name": update.__name__}, tmp_path)
        )
    assert found[0] == found[1] == found[2]
