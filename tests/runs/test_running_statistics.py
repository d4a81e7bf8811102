"""BatchNorm in whole runs: on any ranks and groups, after a kill, and what becomes of its running statistics."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import own_models
import pytest
import torch
from launching import simulated
from safetensors.torch import load_file
from torchvision.models import resnet18, resnet50

import fl_ddp
from fl_ddp.check.candidate import Case
from fl_ddp.check.judge import Judge
from fl_ddp.check.runs import SOLO, course
from fl_ddp.config.command_line import from_mapping
from fl_ddp.config.registry import build
from fl_ddp.config.settings import Choice
from fl_ddp.errors import ConfigError
from fl_ddp.federation import build_federation
from fl_ddp.network.running_statistics import Statistics
from fl_ddp.protocol import OF_STATISTICS

NORMED = f"{own_models.__file__}:Normed"
TINY = {
    "model": NORMED, "clients": 6, "cohort": 4, "rounds": 3,
    "compile": False, "figures": False, "device": "cpu", "lanes": 3,
    "checkpoint_every": 1, "keep_checkpoints": 9, "local_test": 0.2, "name": "run", "batch_size": 40,
}  # fmt: skip
COMPILED = ("once", "compiled")
CONFORMANCE = ("lanes", "padding", "order", "again", "shapes", "intact", "ranks", "resume")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "choice"),
    [
        ("MOON", "local"),
        *(
            pytest.param(*each, marks=pytest.mark.slow)
            for each in [
                ("FedAvg", "average"), ("FedAvg", "first"), ("FedPAC", "local"), ("FedFomo", "average"),
                ("FedALA", "average"), ("Scaffold", "average"), ("FisherAvg", "average"), ("Ditto", "local"),
            ]
        ),
    ],
)  # fmt: skip
def test_runs_have_the_same_bits_in_any_groups_on_any_ranks_and_after_a_kill(
    method: str, choice: str, tmp_path: Path
) -> None:
    settings: dict[str, object] = {"method": method, "model": NORMED, "running_statistics": choice, "local_test": 0.2}
    settings |= {"forgetting_every": 0} if choice == "local" else {}
    with Judge() as judge:
        found = list(judge.findings(Case(method, settings, tmp_path), CONFORMANCE))
    assert [each for each in found if each.verdict != "holds"] == []


@pytest.mark.slow
def test_only_the_first_round_compiles_and_ends_where_an_eager_one_does(tmp_path: Path) -> None:
    with Judge() as judge:
        found = list(judge.findings(Case("FedAvg", {"method": "FedAvg", "model": NORMED}, tmp_path), COMPILED))
    assert [each for each in found if each.verdict != "holds"] == []


def rows(folder: Path, table: str = "metrics.csv") -> list[dict[str, str]]:
    with (folder / table).open(newline="") as file:
        return list(csv.DictReader(file))


def test_local_statistics_leave_the_clients_models_alone_to_be_tested(tmp_path: Path) -> None:
    folder = simulated({**TINY, "running_statistics": "local"}, tmp_path)
    for row in rows(folder):
        assert row["accuracy"] == row["loss"] == row["forgetting"] == ""
        assert 0 < float(row["personalised_accuracy"]) <= 1 and float(row["train_loss"]) > 0
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["accuracy"] is summary["best_accuracy"] is None
    assert summary["personalised_accuracy"] == pytest.approx(float(rows(folder)[-1]["personalised_accuracy"]))
    clients = rows(folder, "clients.csv")
    assert len(clients) == 18 and all(row["received_accuracy"] for row in clients)
    assert len([row for row in clients if row["own_accuracy"]]) == 12


@pytest.mark.parametrize("method", ["FedAvg", "FedPer", pytest.param("Ditto", marks=pytest.mark.slow)])
def test_before_they_train_clients_are_tested_with_statistics_of_their_own(method: str, tmp_path: Path) -> None:
    """In round 3 with the model after round 2, and what each had in the last round that it took part in."""
    folder = simulated({**TINY, "running_statistics": "local", "method": method}, tmp_path)
    run, right = fl_ddp.load(folder), list[float]()
    for client in range(6):
        module = own_models.Normed(in_shape=(1, 8, 8), num_classes=10)
        module.load_state_dict(run.own_weights(client, 2))
        _, _, x, y = run.own_samples(client)
        right.append(float((module.eval()(x).argmax(1) == y).double().mean()))
    assert float(rows(folder)[2]["initial_accuracy"]) == pytest.approx(np.mean(right), abs=1e-9)
    each = [float(row["received_accuracy"]) for row in rows(folder, "clients.csv") if row["round"] == "3"]
    assert each == pytest.approx(right, abs=1e-9)
    begun = simulated({**TINY, "method": method, "rounds": 1, "name": "average"}, tmp_path)
    first = [rows(each)[0]["initial_accuracy"] for each in (folder, begun)]
    assert first[0] == first[1], "all begin with the model's"


def test_what_stands_beside_a_model_stays() -> None:
    model = build_federation(from_mapping({**TINY, "running_statistics": "local"}), SOLO).model
    width, running = model.num_params, sum(model.shapes[i].numel() for i in model.running)
    theta, kept = torch.arange(2.0 * (width + 3)).reshape(2, -1), -1 - torch.arange(2.0 * running).reshape(2, -1)
    own = Statistics(model, "local").own(theta, {OF_STATISTICS: kept})
    assert torch.equal(model.take(own[:, :width], model.running), kept)
    assert torch.equal(own[:, width:], theta[:, width:]) and (own != theta).sum() == kept.numel()
    assert Statistics(model, "average").own(theta, {}) is theta


def test_clients_keep_statistics_of_their_own(tmp_path: Path) -> None:
    states = course(simulated({**TINY, "running_statistics": "local"}, tmp_path))
    own = states[-1].memory["running_statistics"]
    assert own.shape[1] == 32 and len(own) > 4
    assert all(not torch.equal(a, b) for i, a in enumerate(own) for b in own[:i])
    before, after = (
        dict(zip(s.memory["ids"].tolist(), s.memory["running_statistics"], strict=True)) for s in states[:2]
    )
    assert sum(torch.equal(before[k], after[k]) for k in before) == len(before.keys() | after.keys()) - 4


@pytest.mark.slow
def test_the_statistics_of_the_first_round_stay(tmp_path: Path) -> None:
    first, average = (
        course(simulated({**TINY, "running_statistics": choice, "name": choice}, tmp_path))
        for choice in ("first", "average")
    )
    of_first, of_average = ([state.server["theta"][-32:] for state in states] for states in (first, average))
    assert torch.equal(of_first[0], of_average[0])
    assert torch.equal(of_first[1], of_first[0]) and torch.equal(of_first[2], of_first[0])
    assert not torch.isclose(of_average[1], of_average[0]).all()
    assert torch.equal(first[0].server["theta"], average[0].server["theta"])
    assert torch.equal(first[1].server["theta"][:-32], average[1].server["theta"][:-32]), "training does not see them"


def test_the_model_that_is_left_loads_into_the_module(tmp_path: Path) -> None:
    folder = simulated(TINY, tmp_path)
    tensors = load_file(folder / "model.safetensors")
    module = own_models.Normed(in_shape=(1, 8, 8), num_classes=10)
    module.load_state_dict(tensors)
    assert (tensors["norm.running_var"] > 0).all() and tensors["norm.running_mean"].any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"running_statistics": "first", "model": "MLP"},
            "--running_statistics: first, but the model has no BatchNorm",
        ),
        ({"estimate_statistics": True}, "--estimate_statistics: belongs to --running_statistics local"),
        (
            {"running_statistics": "local", "local_test": 0.0},
            "--running_statistics: local leaves the clients' models alone to be tested, and they have no samples for "
            "it; accepted: --local_test, or --estimate_statistics true, beside it",
        ),
        (
            {"running_statistics": "last"},
            "running_statistics: last is unknown; accepted: average or local or first",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        simulated({**TINY, **settings}, tmp_path)
    assert message in str(error.value)


def test_group_norm_for_any_model() -> None:
    module = build(Choice(NORMED, {"norm": "group"}), in_shape=(1, 8, 8), num_classes=10)
    assert isinstance(module, own_models.Normed)
    assert isinstance(module.norm, torch.nn.GroupNorm) and module.norm.num_groups == 1
    assert from_mapping({"model": NORMED, "model.norm": "group"}).model.init_args == {"hidden": 16, "norm": "group"}
    assert from_mapping({"model": NORMED}).model.init_args == {"hidden": 16}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("depth", "options"),
    [
        (resnet18, {}), (resnet18, {"running_statistics": "local"}), (resnet18, {"model.norm": "group"}),
        (resnet50, {}),
    ],
    ids=lambda each: getattr(each, "__name__", str(each)),
)  # fmt: skip
def test_torchvisions_resnets_by_their_import_paths(
    depth: Callable[..., torch.nn.Module], options: dict[str, object], tmp_path: Path
) -> None:
    images = torch.rand(40, 3, 32, 32, generator=torch.Generator().manual_seed(0)).numpy()
    np.savez(
        tmp_path / "data.npz", x_train=images, y_train=np.arange(40) % 4, x_test=images[:8], y_test=np.arange(8) % 4
    )
    settings = {
        **TINY, "data": str(tmp_path / "data.npz"), "model": f"torchvision.models.{depth.__name__}",
        "clients": 2, "cohort": 2, "lanes": 2, "rounds": 1, "batch_size": 8, "partition": "IID",
        "drop_last": True, "lr": 0.01, **options,
    }  # fmt: skip
    folder = simulated(settings, tmp_path)
    tensors = load_file(folder / "model.safetensors")
    if "model.norm" not in options:
        depth(num_classes=4).load_state_dict(tensors)
        assert not torch.equal(tensors["bn1.running_mean"], torch.zeros(64))
    assert float(rows(folder)[-1]["train_loss"]) > 0
