"""load(): what a run has left, its models among it, as objects."""

from __future__ import annotations

import csv
import json
import math
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL, one_thread
from safetensors.torch import load_file
from torch import Tensor, nn

import fl_ddp
from fl_ddp.datasets.digits import Digits
from fl_ddp.errors import ConfigError
from fl_ddp.notebook.result import Result

OWN: Mapping[str, object] = {**SMALL, "local_test": 0.3}
KEPT = ("Ditto", "FedFomo", "LocalOnly")
"""Methods whose clients' own models, as they are tested after local training, are kept to the next round."""
WITH_A_PART = {"FedPer": "head", "FedRep": "head", "FedBN": "norm"}
"""Methods whose clients keep a part of the model, and its name in Normed."""
AS_KEPT = {"head": "head", "norm": "norms"}
"""Their names in a client's memory."""


class Normed(nn.Module):
    """A network with BatchNorm."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(64, 12), nn.BatchNorm1d(12), nn.Linear(12, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(torch.relu(self.norm(self.body(x.flatten(1)))))
        return logits


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One thread."""
    with one_thread():
        yield


def same(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> bool:
    """Whether two state dicts are equal to the last bit."""
    return ours.keys() == theirs.keys() and all(torch.equal(t, theirs[name]) for name, t in ours.items())


def share_right(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Accuracy of a model that gives logits, or features and logits."""
    out = model(x)
    return float(((out[1] if isinstance(out, tuple) else out).argmax(1) == y).double().mean())


def made(tmp_path: Path, **options: object) -> Result:
    """A run."""
    return fl_ddp.simulate({**OWN, "out": str(tmp_path), **options})


def test_a_run_is_what_it_was_when_it_ended(tmp_path: Path) -> None:
    run = made(tmp_path, **{"data.normalize": True})
    found = fl_ddp.load(tmp_path / "run")
    assert found == run
    assert same(found.weights, run.weights)
    (x, y), *others = found.tests
    assert not others and not found.model.training
    assert share_right(found.model, x, y) == run["accuracy"]
    assert same(found.model.state_dict(), run.weights)
    assert share_right(run.model, x, y) == run["accuracy"], "what simulate() gives has a model, too"


def rows_of(file: Path) -> list[dict[str, str]]:
    """Of a table."""
    with file.open(newline="") as told:
        return list(csv.DictReader(told))


def test_tables_are_rows(tmp_path: Path) -> None:
    run = fl_ddp.load(folder(made(tmp_path, forgetting_every=1)))
    for found, file in ((run.history, "metrics"), (run.clients, "clients"), (run.forgetting_degrees, "forgetting")):
        told = rows_of(tmp_path / "run" / f"{file}.csv")
        assert len(found) == len(told) > 0
        for name in set(told[0]) - {"class"}:
            numbers = [float(row[name]) if row[name] else math.nan for row in told]
            assert np.array_equal(np.array(found[name], float), numbers, equal_nan=True)
    assert len(run.tasks) == 0
    assert run.partition == json.loads((tmp_path / "run" / "partition.json").read_text())


def folder(run: Result) -> str:
    """Of a run."""
    return str(run["folder"])


def test_names_of_classes_are_words_though_they_look_like_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made(tmp_path, forgetting_every=1, rounds=1)
    framed = [*run.forgetting_degrees["class"]]
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert framed == [row["class"] for row in run.forgetting_degrees] == [str(i) for i in range(10)] * 7


def test_models_of_rounds_are_those_that_were_saved(tmp_path: Path) -> None:
    seen: dict[int, Mapping[str, Tensor]] = {}

    def see(record: object, weights: Mapping[str, Tensor]) -> None:
        seen[len(seen) + 1] = {name: t.clone() for name, t in weights.items()}

    given = {**OWN, "keep_checkpoints": 2, "rounds": 4, "out": str(tmp_path)}
    run = fl_ddp.simulate(given, callbacks=[see], eval_every=4)
    assert run.checkpoints == [3, 4]
    assert same(run.weights_after(3), seen[3]) and same(run.weights_after(4), seen[4])
    assert same(run.weights_after(4), run.weights)
    with pytest.raises(ConfigError, match=r"round: 2 is of no checkpoint in .*run; accepted: 3, 4"):
        run.weights_after(2)


def test_the_best_model_is_that_of_the_best_evaluation(tmp_path: Path) -> None:
    run = made(tmp_path, rounds=8, keep_checkpoints=1, lr=0.5)
    accuracies = [row["accuracy"] for row in rows_of(tmp_path / "run" / "metrics.csv")]
    best = accuracies.index(max(accuracies, key=float)) + 1
    assert best < 8, "the last one is kept anyway"
    assert run.best_round == best and run.checkpoints == [best, 8]
    model = run.model
    model.load_state_dict(run.weights_after(best))
    assert share_right(model, *run.tests[0]) == run["best_accuracy"]
    assert same(run.model.state_dict(), run.weights), "another module each time"
    assert made(tmp_path, rounds=0, name="none").best_round is None


def test_models_of_tasks_do_on_their_tests_as_told(tmp_path: Path) -> None:
    stream = {"stream": "Permuted", "stream.tasks": 2, "stream.task_rounds": 1, "rounds": 2}
    run = fl_ddp.load(folder(made(tmp_path, local_test=0, **stream)))
    told = [[float(each) for each in row] for row in run["task_accuracy"]]
    model = run.model
    for finished in (0, 1, 2):
        model.load_state_dict(run.weights_after(finished))
        assert [share_right(model, x, y) for x, y in run.tests] == told[finished]
    assert len(run.tasks) > 0
    last, first = (each.own_samples(3).x.flatten(1) for each in (run, made(tmp_path, local_test=0, name="static")))
    assert not torch.equal(last, first) and torch.equal(last.sort(1).values, first.sort(1).values)


def test_labels_that_a_known_head_leaves_out_do_not_count(tmp_path: Path) -> None:
    stream = {"stream": "ClassGroups", "stream.tasks": 2, "stream.scenario": "task", "stream.task_rounds": 1}
    run = made(tmp_path, local_test=0, rounds=2, partition="IID", **{**stream, "stream.size": 5})
    told = [float(each) for each in run["task_accuracy"][2]]
    model, found = run.model, []
    for (x, y), allowed in zip(run.tests, run.allowed, strict=True):
        assert allowed is not None and int(allowed.sum()) == 5
        logits = model(x)[1].masked_fill(~allowed, -torch.inf)
        found.append(float((logits.argmax(1) == y).double().mean()))
    assert found == told
    assert made(tmp_path, name="static", rounds=0).allowed == [None]


def test_samples_are_those_of_the_partition(tmp_path: Path) -> None:
    run = made(tmp_path, local_test_from="test", rounds=1)
    data = Digits().load("classes")
    for client in range(12):
        x, y, x_test, y_test = run.own_samples(client)
        rows, tested = run.partition["clients"][client], run.partition["local_test"][client]
        assert torch.equal(x, torch.from_numpy(data.x_train[rows]))
        assert y.tolist() == data.y_train[rows].tolist()
        assert torch.equal(x_test, torch.from_numpy(data.x_test[tested]))
        assert y_test.tolist() == data.y_test[tested].tolist()


@pytest.mark.parametrize("method", KEPT)
def test_clients_own_models_are_those_that_were_tested(method: str, tmp_path: Path) -> None:
    run = made(tmp_path, method=method, cohort=12)
    told, model = rows_of(tmp_path / "run" / "clients.csv"), run.model
    rows = [row for row in told if row["round"] == "3" and row["own_accuracy"]]
    assert len(rows) == 12
    for row in rows:
        client = int(row["client"])
        model.load_state_dict(run.own_weights(client))
        _, _, x, y = run.own_samples(client)
        assert share_right(model, x, y) == pytest.approx(float(row["own_accuracy"]), abs=1e-9)


@pytest.mark.parametrize("method", WITH_A_PART)
def test_clients_that_keep_a_part_have_it_in_the_servers_model(method: str, tmp_path: Path) -> None:
    part, given = WITH_A_PART[method], {key: value for key, value in OWN.items() if key != "model.hidden"}
    more = {"method": method, "model": f"{__name__}.Normed", "keep_checkpoints": 3, "out": str(tmp_path)}
    run = fl_ddp.simulate({**given, **more})
    kept = [name for name in Normed().state_dict() if name.startswith(part) and not name.endswith("tracked")]
    kept_by = load_file(tmp_path / "run" / "checkpoints" / "round_000003" / "memory.0.safetensors")
    for row, client in enumerate(kept_by["ids"].tolist()):
        own = run.own_weights(client)
        assert all(torch.equal(t, run.weights[name]) for name, t in own.items() if not name.startswith(part))
        assert torch.equal(torch.cat([own[name].flatten() for name in kept]), kept_by[AS_KEPT[part]][row])
    assert not same(run.own_weights(0, 1), run.own_weights(0, 3))


def test_clients_of_fedpac_have_the_heads_that_are_mixed_for_them(tmp_path: Path) -> None:
    run = made(tmp_path, method="FedPAC")
    heads = load_file(tmp_path / "run" / "checkpoints" / "round_000003" / "server.safetensors")["heads"]
    head = [name for name in run.model.state_dict() if name.startswith(("classifier", "head"))]
    assert head and not torch.equal(heads[3], heads[4])
    for client in (3, 4):
        assert torch.equal(torch.cat([run.own_weights(client)[name].flatten() for name in head]), heads[client])


def test_what_is_no_model_of_the_run_is_refused(tmp_path: Path) -> None:
    message = r"method: clients' own models of FedRoD are float32 \[1380\], no float32 \[1210\]; "
    with pytest.raises(ConfigError, match=message):
        made(tmp_path, method="FedRoD", rounds=1).own_weights(0)


def test_clients_own_statistics_are_in_their_models(tmp_path: Path) -> None:
    given = {key: value for key, value in OWN.items() if key != "model.hidden"}
    options: Mapping[str, object] = {"running_statistics": "local", "cohort": 6, "rounds": 1, "out": str(tmp_path)}
    run = fl_ddp.simulate({**given, **options, "model": Normed})
    kept = load_file(tmp_path / "run" / "checkpoints" / "round_000001" / "memory.0.safetensors")
    took_part, first = kept["ids"].tolist(), torch.cat([torch.zeros(12), torch.ones(12)])
    assert len(took_part) == 6
    for client in range(12):
        own = run.own_weights(client)
        expected = kept["running_statistics"][took_part.index(client)] if client in took_part else first
        assert torch.equal(torch.cat([own["norm.running_mean"], own["norm.running_var"]]), expected)
        assert torch.equal(own["head.weight"], run.weights["head.weight"])
    with pytest.raises(ConfigError, match="--running_statistics: local: each client keeps its own"):
        run.model  # noqa: B018


def test_the_models_at_the_ends_of_tasks_are_kept(tmp_path: Path) -> None:
    tasks = {"stream": "ClassGroups", "stream.tasks": 3, "stream.size": 3, "stream.task_rounds": 2, "rounds": 7}
    given = {**SMALL, **tasks, "checkpoint_every": 5, "keep_checkpoints": 1, "out": str(tmp_path)}
    run = fl_ddp.simulate(given)
    matrix = run["task_accuracy"]
    for task in (1, 2):
        module = run.model
        module.load_state_dict(run.task_weights(task))
        assert [share_right(module, *test) for test in run.tests] == pytest.approx(matrix[task], abs=1e-12)
    for task in (0, 3):
        with pytest.raises(ConfigError, match=f"^task: {task} has left no model; accepted: one before the last"):
            run.task_weights(task)
    static = {**SMALL, "stream.tasks": 3, "stream.task_rounds": 1, "out": str(tmp_path), "name": "static"}
    assert not list(Path(fl_ddp.simulate(static)["folder"]).glob("task_*")), "tasks without tests of their own"
