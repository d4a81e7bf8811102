"""own_tasks.csv: what a federation forgets of its clients' earlier tasks, of clients that left, of their own models."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SUPPORT, finished, numbers, one_thread, resumed, simulated

import fl_ddp
from fl_ddp.check.runs import SOLO
from fl_ddp.config.command_line import from_mapping
from fl_ddp.federation import Federation, build_federation
from fl_ddp.notebook.result import Result
from fl_ddp.protocol import Indices
from fl_ddp.run_tables import RunTables
from fl_ddp.simulation import Simulation

TASKS: Mapping[str, object] = {
    "data": "digits", "partition": "IID", "model.hidden": 16, "clients": 3, "batch_size": 20,
    "compile": False, "figures": False,
    "rounds": 6, "eval_every": 4, "checkpoint_every": 1, "keep_checkpoints": 9, "device": "cpu", "name": "run",
    "stream": "ClassGroups", "stream.tasks": 3, "stream.size": 3, "stream.task_rounds": 2, "local_test": 0.3,
    "lr": 0.2,
}  # fmt: skip
ENDS = {2: 1, 4: 2, 6: 3}
"""Rounds after which a task ends, and which."""
NORMED = {"model": f"{SUPPORT / 'own_models.py'}:Normed", "running_statistics": "local"}
HEADS = {"stream.scenario": "task"}
LEAVE = {"stream.enrolment": "decreasing"}
FROM_TEST = {"stream": "Permuted", "local_test_from": "test", "stream.size": None}

Key = tuple[int, int, int]
"""Round, client and task tested."""


def given(settings: Mapping[str, object]) -> dict[str, object]:
    """TASKS with other settings; None leaves one out, and a model of one's own has no hidden layer to choose."""
    all_of_it = {**TASKS, **settings}
    own = ["model.hidden"] if "model" in settings else []
    return {key: value for key, value in all_of_it.items() if value is not None and key not in own}


def table(run: Path) -> dict[Key, tuple[int, int, float]]:
    """Task trained, test samples and accuracy."""
    with (run / "own_tasks.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    told = {(int(row["round"]), int(row["client"]), int(row["task_tested"])): row for row in rows}
    assert len(told) == len(rows) and list(told) == sorted(told), "each once, in their order"
    return {
        key: (int(row["task_trained"]), int(row["test_samples"]), float(row["accuracy"])) for key, row in told.items()
    }


def enrolled(run: Path) -> list[list[bool]]:
    """Whether each client is in each task."""
    lines = (run / "enrolment.csv").read_text().split()
    return [[word == "1" for word in line.split(",")] for line in lines]


def expected(run: Path, settings: Mapping[str, object], own: bool) -> dict[Key, tuple[int, int, float]]:
    """The same by what the checkpoints have, sample by sample."""
    loaded, here, found = fl_ddp.load(run), enrolled(run), dict[Key, tuple[int, int, float]]()
    federation = build_federation(from_mapping(settings), SOLO)
    module = None if own else loaded.model
    for end, trained in ENDS.items():
        for client, mine in enumerate(federation.local_test):
            for task in range(trained):
                x, y = of_task(federation, loaded, task, mine, settings)
                if not here[client][task] or not len(y):
                    continue
                if module is not None:
                    module.load_state_dict(loaded.weights_after(end))
                    logits = module(x)[1]
                else:
                    logits = loaded.own_logits(client, x, end)
                allowed = loaded.allowed[task]
                logits = logits if allowed is None else logits.where(allowed, -np.inf)
                right = [int(row.argmax()) == label for row, label in zip(logits, y.tolist(), strict=True)]
                found[end, client, task + 1] = trained, len(right), sum(right) / len(right)
    return dict(sorted(found.items()))


def of_task(
    federation: Federation, loaded: Result, task: int, mine: Indices, settings: Mapping[str, object]
) -> tuple[torch.Tensor, torch.Tensor]:
    """A client's own test samples of a task: some of the task's test set, or those of its classes."""
    x, y = loaded.tests[task]
    if settings.get("local_test_from") == "test":
        return x[torch.from_numpy(mine)], y[torch.from_numpy(mine)]
    train, labels = federation.worlds.at(0).train, torch.from_numpy(federation.labels)  # of all tasks the same inputs
    rows = torch.from_numpy(mine[np.isin(federation.labels[mine], y.numpy())])  # labels are those of the data
    return train.inputs(train.x[rows], torch.float32), labels[rows]


def measures(found: Mapping[Key, tuple[int, int, float]]) -> tuple[float, float]:
    """own_average_accuracy and own_average_forgetting, as docs/tasks.md has them."""
    last = max(end for end, _, _ in found)
    accuracies, lost = [], []
    for client in sorted({client for _, client, _ in found}):
        tasks = sorted(task for end, each, task in found if (end, each) == (last, client))
        accuracies.append(np.mean([found[last, client, task][2] for task in tasks]))
        before = {
            task: [found[e, client, task][2] for e in ENDS if e < last and (e, client, task) in found] for task in tasks
        }
        known = [max(each) - found[last, client, task][2] for task, each in before.items() if each]
        lost += [np.mean(known)] if known else []
    return float(np.mean(accuracies)), float(np.mean(lost))


@pytest.mark.parametrize("method", ["FedAvg", "Ditto"])
def test_a_run_that_is_ended_before_its_first_round_tests_nobody(tmp_path: Path, method: str) -> None:
    with one_thread():
        run = fl_ddp.simulate({**given({}), "method": method}, out=str(tmp_path), callbacks=[lambda record: True])
    assert run["rounds"] == 0 and run["own_average_accuracy"] is None and not table(Path(str(run["folder"])))


@pytest.mark.parametrize("every", [1, 4])
def test_a_run_that_is_ended_in_a_task_tests_clients_as_one_of_so_many_rounds(tmp_path: Path, every: int) -> None:
    settings = {**given({}), "eval_every": every}
    with one_thread():
        part = fl_ddp.simulate(settings, out=str(tmp_path / "part"), callbacks=[lambda record: record.round == 3])
    third = simulated({**settings, "rounds": 3}, tmp_path / "third")
    run = Path(str(part["folder"]))
    assert table(run) == table(third) and {end for end, _, _ in table(run)} == {2, 3}
    told = json.loads((third / "summary.json").read_text())
    for name in ("own_average_accuracy", "own_average_forgetting", "average_accuracy"):
        assert part[name] == told[name] is not None
    resumed(run)
    whole = simulated(settings, tmp_path / "whole")
    assert numbers(run) == numbers(whole) and table(run) == table(whole)


@pytest.mark.parametrize(
    ("settings", "own"),
    [
        ({}, False),
        ({"method": "Ditto", **LEAVE}, True),
        ({"method": "FedPer", "cohort": 2, **HEADS}, True),
        ({**HEADS, **LEAVE}, False),
        ({**NORMED, "cohort": 2}, True),
        ({**FROM_TEST, "method": "Ditto", "stream.enrolment": "scattered"}, True),
        ({**FROM_TEST, "stream.keep": 0.3}, False),
    ],
    ids=["FedAvg", "Ditto-left", "FedPer-heads", "heads-left", "statistics", "scattered", "kept"],
)
def test_clients_are_tested_on_each_of_their_tasks_with_what_they_have(
    tmp_path: Path, settings: Mapping[str, object], own: bool
) -> None:
    run = simulated(given(settings), tmp_path)
    found, told = table(run), json.loads((run / "summary.json").read_text())
    by_hand = expected(run, given(settings), own)
    assert {key: value[:2] for key, value in found.items()} == {key: value[:2] for key, value in by_hand.items()}
    assert [value[2] for value in found.values()] == pytest.approx([value[2] for value in by_hand.values()], abs=1e-12)
    assert {end for end, _, _ in found} == set(ENDS)
    accuracy, lost = measures(found)
    assert told["own_average_accuracy"] == pytest.approx(accuracy, abs=1e-12)
    assert told["own_average_forgetting"] == pytest.approx(lost, abs=1e-12)
    assert len(fl_ddp.load(run).own_tasks) == len(found)


def test_a_client_that_has_the_whole_test_set_forgets_what_the_federation_does(tmp_path: Path) -> None:
    alone = {"clients": 1, "local_test_from": "test", "local_test": 0.9}
    run = simulated(given(alone), tmp_path)
    told = json.loads((run / "summary.json").read_text())
    assert told["own_average_accuracy"] == told["average_accuracy"] > 0
    assert told["own_average_forgetting"] == told["average_forgetting"] > 0
    with (run / "tasks.csv").open(newline="") as file:
        whole = [
            (r["round"], r["task_tested"], r["accuracy"])
            for r in csv.DictReader(file)
            if r["task_tested"] <= r["task_trained"]
        ]
    with (run / "own_tasks.csv").open(newline="") as file:
        assert [(r["round"], r["task_tested"], r["accuracy"]) for r in csv.DictReader(file)] == whole


def test_methods_differ_in_what_clients_forget_though_the_servers_model_is_one(tmp_path: Path) -> None:
    plain, ditto = (simulated(given({"method": name, "name": name}), tmp_path) for name in ("FedAvg", "Ditto"))
    assert (plain / "tasks.csv").read_text() == (ditto / "tasks.csv").read_text()
    assert (plain / "own_tasks.csv").read_text() != (ditto / "own_tasks.csv").read_text()


OWN: Sequence[Mapping[str, object]] = (
    {"method": "FedPer", "cohort": 2},
    {**NORMED, "method": "Ditto", "cohort": 2, **LEAVE},
    {},
)


@pytest.mark.parametrize(
    "settings",
    [pytest.param(each, marks=[pytest.mark.slow] * (each is not OWN[1])) for each in OWN],
    ids=["FedPer", "Ditto", "FedAvg"],
)
def test_the_table_is_the_same_in_any_lanes_and_after_a_resume(tmp_path: Path, settings: Mapping[str, object]) -> None:
    run = simulated(given({**settings, "name": "whole", "lanes": 2}), tmp_path)
    whole = (run / "own_tasks.csv").read_text()
    one = simulated(given({**settings, "name": "one", "lanes": 1}), tmp_path)
    assert [key for key in table(one)] == [key for key in table(run)]
    for killed in (5, 6):  # with the rows of a round behind the newest checkpoint, or without its results
        copy = tmp_path / f"killed{killed}"
        shutil.copytree(run, copy)
        (copy / "summary.json").unlink()
        for number in range(killed, 7 if killed == 5 else 0):
            shutil.rmtree(copy / "checkpoints" / f"round_{number:06d}")
        resumed(copy)
        assert (copy / "own_tasks.csv").read_text() == whole
        for name in ("own_average_accuracy", "own_average_forgetting"):
            assert (
                json.loads((copy / "summary.json").read_text())[name]
                == json.loads((run / "summary.json").read_text())[name]
            )


def test_the_look_changes_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = simulated(given({**OWN[1], "name": "looked"}), tmp_path)
    monkeypatch.setattr(Simulation, "_own_tasks", lambda *_: ())
    assert numbers(simulated(given({**OWN[1], "name": "blind"}), tmp_path)) == numbers(run)


@pytest.mark.slow
@pytest.mark.parametrize("settings", OWN, ids=["FedPer", "Ditto", "FedAvg"])
def test_two_ranks_write_the_same_table(tmp_path: Path, settings: Mapping[str, object]) -> None:
    alone = simulated(given({**settings, "name": "alone", "lanes": 2}), tmp_path)
    finished({**given({**settings, "name": "together", "lanes": 2}), "out": tmp_path}, 2, tmp_path)
    assert (tmp_path / "together" / "own_tasks.csv").read_text() == (alone / "own_tasks.csv").read_text()
    assert numbers(tmp_path / "together") == numbers(alone)


@pytest.mark.parametrize("method", [pytest.param("FedAvg", marks=pytest.mark.slow), "Ditto"])
def test_a_task_ends_in_a_round_without_clients_too(tmp_path: Path, method: str) -> None:
    who = tmp_path / "who.csv"
    who.write_text("client,from,to\n" + "".join(f"{client},1,3\n{client},5,5\n" for client in range(3)))
    run = simulated(given({"method": method, "availability": str(who)}), tmp_path)
    settings = given({"method": method})
    by_hand, found = expected(run, settings, method == "Ditto"), table(run)
    assert found.keys() == by_hand.keys()
    assert [value[2] for value in found.values()] == pytest.approx([value[2] for value in by_hand.values()], abs=1e-12)


@pytest.mark.parametrize("method", [pytest.param("FedAvg", marks=pytest.mark.slow), "Ditto"])
def test_a_task_may_have_nobody_s_samples(tmp_path: Path, method: str) -> None:
    more = {"method": method, "clients": 2, "stream.enrolment": "scattered", "stream.empty": "skip"}
    for name, stream in (("as stored", {}), ("others", {"stream": "Permuted", "stream.size": None})):
        run = simulated(given({**more, **stream, "name": name}), tmp_path)
        ends = [key[0] for key in table(run)]
        assert sorted(set(ends)) == [2, 4, 6] and len({key[1:] for key in table(run)}) == 2, "a task of each client"


def test_a_run_of_a_version_without_the_table_goes_on_without_it(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its numbers would be of the last ends alone; where no task had ended it has all of them."""
    now = RunTables.appended
    for rounds, lacks in ((1, False), (3, True)):
        with monkeypatch.context() as patch:
            patch.setattr(RunTables, "appended", lambda it: {k: v for k, v in now(it).items() if k != "own_tasks"})
            run = simulated(given({"rounds": rounds, "name": f"of{rounds}"}), tmp_path)
        (run / "own_tasks.csv").unlink()
        resumed(run, rounds=6)
        assert ("going on after round 3 without own_tasks.csv" in capfd.readouterr().out) == lacks
        summary = json.loads((run / "summary.json").read_text())
        assert (run / "own_tasks.csv").exists() != lacks and (summary["own_average_forgetting"] is None) == lacks


def test_without_tasks_or_own_tests_there_is_no_table(tmp_path: Path) -> None:
    static = simulated(
        given({"stream": None, "stream.tasks": None, "stream.size": None, "stream.task_rounds": None, "name": "a"}),
        tmp_path,
    )
    untested = simulated(given({"local_test": 0.0, "name": "b"}), tmp_path)
    for run in (static, untested):
        assert not (run / "own_tasks.csv").exists() and len(fl_ddp.load(run).own_tasks) == 0
        assert json.loads((run / "summary.json").read_text())["own_average_forgetting"] is None
