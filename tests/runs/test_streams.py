"""Runs whose data and clients change: same bits anywhere, and what they leave."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL, numbers, resumed, simulated
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fl_ddp.check.candidate import Case
from fl_ddp.check.judge import Judge
from fl_ddp.check.runs import SETTINGS, SOLO, course, play
from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import ConfigError
from fl_ddp.federation import build_federation
from fl_ddp.losses.cross_entropy import among
from fl_ddp.results import checkpoint

CONFORMANCE = ("lanes", "padding", "order", "again", "shapes", "intact", "ranks", "resume")
TWO = {"stream.tasks": 2, "stream.task_rounds": 1}
"""Of which the second has the second and the third round; the judge's runs are killed in the second."""
CASES: dict[str, dict[str, object]] = {
    "FedAvg": {"stream": "Permuted", "stream.enrolment": "increasing", "stream.keep": 0.5},
    "Scaffold": {"stream": "ClassGroups", "stream.size": 5, "stream.enrolment": "decreasing"},
    "FedKA": {"stream": "ClassGroups", "stream.size": 5, "stream.scenario": "domain"},
    "FedCurv": {"stream": "ClassGroups", "stream.size": 5, "stream.scenario": "task", "stream.enrolment": "scattered"},
    "FedCL": {"stream": "Rotated", "stream.enrolment": "random", "method.proxy": 0.2},
    "FisherAvg": {"stream": "ClassGroups", "stream.size": 5, "stream.scenario": "task", "method.lam": 1.0},
    "FedPAC": {"stream": "Permuted", "stream.enrolment": "scattered"},
    "FedFomo": {"stream": "ClassGroups", "stream.size": 5, "stream.enrolment": "random"},
}
IN_EVERY_RUN = ("FedAvg",)
TASKS: dict[str, object] = {
    **SMALL, "partition": "IID", "stream": "ClassGroups", "stream.tasks": 3, "stream.size": 3, "stream.task_rounds": 2,
    "rounds": 6, "eval_every": 4, "keep_checkpoints": 9,
}  # fmt: skip


@pytest.mark.parametrize(
    "method", [name if name in IN_EVERY_RUN else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_bits_are_the_same_in_any_groups_on_any_ranks_and_after_a_kill(method: str, tmp_path: Path) -> None:
    with Judge() as judge:
        found = list(judge.findings(Case(method, {"method": method, **TWO, **CASES[method]}, tmp_path), CONFORMANCE))
    assert [each for each in found if each.verdict != "holds"] == []
    assert {each.rule for each in found} == set(CONFORMANCE)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated({**TASKS, "figures": True}, tmp_path_factory.mktemp("tasks"))


def rows(run: Path) -> list[dict[str, str]]:
    with (run / "tasks.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_tasks_are_tested_at_evaluations_and_all_of_them_at_the_end_of_each(run: Path) -> None:
    tested = [(int(row["round"]), int(row["task_trained"]), int(row["task_tested"])) for row in rows(run)]
    ends = [(0, 0), (2, 1), (4, 2), (6, 3)]
    assert tested == [(index, task, j) for index, task in ends for j in (1, 2, 3)]


def test_the_best_model_is_of_the_last_task(run: Path) -> None:
    with (run / "metrics.csv").open(newline="") as file:
        accuracy = {int(row["round"]): float(row["accuracy"]) for row in csv.DictReader(file) if row["accuracy"]}
    assert accuracy[2] > accuracy[6], "the first classes alone are easier than all"
    assert json.loads((run / "summary.json").read_text())["best_accuracy"] == accuracy[6]
    assert checkpoint.best(run) == 6


def test_accuracies_are_those_of_the_models_on_the_tasks_samples(run: Path) -> None:
    federation = build_federation(from_mapping(TASKS), SOLO)
    thetas = {index: state.server["theta"] for index, state in enumerate(course(run), 1)} | {0: federation.model.init()}
    for row in rows(run):
        samples = federation.worlds.test_samples[int(row["task_tested"]) - 1]
        logits = federation.model.logits(thetas[int(row["round"])], samples.inputs(samples.x, torch.float32))
        assert float(row["accuracy"]) == pytest.approx(
            float((logits.argmax(1) == samples.y).double().mean()), abs=1e-12
        )


def test_the_accuracy_of_a_round_is_that_of_the_tasks_so_far(run: Path) -> None:
    sizes = [len(test.y) for test in build_federation(from_mapping(TASKS), SOLO).worlds.test_samples]
    by_round: dict[str, list[float]] = {}
    for row in rows(run):
        by_round.setdefault(row["round"], []).append(float(row["accuracy"]))
    with (run / "metrics.csv").open(newline="") as file:
        accuracy = {row["round"]: float(row["accuracy"]) for row in csv.DictReader(file) if row["accuracy"]}
    assert accuracy.keys() == by_round.keys()
    for index, value in accuracy.items():
        so_far = max((int(index) + 1) // 2, 1)
        assert value == pytest.approx(np.average(by_round[index][:so_far], weights=sizes[:so_far]), abs=1e-12)


def test_the_summary_tells_what_was_forgotten(run: Path) -> None:
    summary = json.loads((run / "summary.json").read_text())
    a = summary["task_accuracy"]
    assert len(a) == 4 and all(len(row) == 3 for row in a)
    assert summary["average_accuracy"] == pytest.approx(np.mean(a[3]))
    with (run / "metrics.csv").open(newline="") as file:
        after = [float(row["accuracy"]) for row in csv.DictReader(file) if row["round"] in ("2", "4", "6")]
    assert summary["incremental_accuracy"] == pytest.approx(np.mean(after))
    lost = [max(a[1][0], a[2][0]) - a[3][0], a[2][1] - a[3][1]]
    assert summary["average_forgetting"] == pytest.approx(np.mean(lost))
    assert summary["backward_transfer"] == pytest.approx(np.mean([a[3][0] - a[1][0], a[3][1] - a[2][1]]))
    assert summary["forward_transfer"] == pytest.approx(np.mean([a[1][1] - a[0][1], a[2][2] - a[0][2]]))
    assert summary["average_forgetting"] > 0.3


def test_tensorboard_shows_the_tasks_as_they_come(run: Path) -> None:
    events = EventAccumulator(str(run), size_guidance={"images": 0})
    events.Reload()
    by_tag = {tag: [each.step for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]}
    assert [by_tag[f"task_accuracy/{task}"] for task in (1, 2, 3)] == [[2, 4, 6], [4, 6], [6]]
    assert by_tag["task_accuracy/average"] == [2, 4, 6]
    assert [each.step for each in events.Images("tasks")] == [6]
    assert (run / "tasks.png").stat().st_size > 5000


@pytest.mark.slow
def test_a_run_goes_on_in_the_middle_of_a_task(run: Path, tmp_path: Path) -> None:
    short = simulated({**TASKS, "rounds": 3}, tmp_path)
    assert numbers(resumed(short, rounds=6)).parameters == numbers(run).parameters
    # the shorter run was evaluated after its last round, too
    assert [row for row in rows(short) if row["round"] != "3"] == rows(run)
    events = EventAccumulator(str(short))
    events.Reload()
    assert [each.step for each in events.Scalars("task_accuracy/1")] == [2, 3, 4, 6]


@pytest.mark.slow
def test_a_round_without_clients_is_skipped_where_that_is_wanted(tmp_path: Path) -> None:
    who = tmp_path / "who.csv"
    who.write_text("1,0,1\n" * 12)
    settings = {**TASKS, "stream.enrolment": str(who), "stream.empty": "skip", "method": "FedDyn"}
    states = course(skipping := simulated(settings, tmp_path))
    with (skipping / "metrics.csv").open(newline="") as file:
        table = [row for row in csv.DictReader(file) if row["round"] != "0"]
    assert [row["cohort"] for row in table] == ["7", "7", "0", "0", "7", "7"]
    assert [row["train_loss"] == "" for row in table] == [False, False, True, True, False, False]
    assert states[1].unlike(states[2]) == "" == states[1].unlike(states[3])
    assert states[4].unlike(states[3]) != ""


@pytest.mark.slow
def test_a_run_does_not_go_on_with_other_clients(tmp_path: Path) -> None:
    who = tmp_path / "who.csv"
    who.write_text("1,1,0\n" + "1,1,1\n" * 11)
    short = simulated({**TASKS, "rounds": 3, "stream.enrolment": str(who)}, tmp_path)
    assert (short / "enrolment.csv").read_text() == who.read_text()
    who.write_text("1,1,1\n" * 12)
    with pytest.raises(ConfigError, match=r"enrolment.csv: the run was started with another enrolment of its clients"):
        resumed(short, rounds=6)
    who.write_text((short / "enrolment.csv").read_text())
    assert resumed(short, rounds=4) == short


@pytest.mark.slow
def test_a_run_does_not_go_on_in_other_tasks(tmp_path: Path) -> None:
    lists, tests = tmp_path / "tasks.json", [[*range(100)], [*range(100, 200)]]
    first, other = [*range(600)], [*range(500, 1100)]
    lists.write_text(json.dumps({"train": [first, other], "test": tests}))
    settings = {**SMALL, "partition": "IID", "stream": "FromFile", "stream.path": str(lists), "stream.task_rounds": 1}
    short = simulated({**settings, "rounds": 1}, tmp_path)
    before = {file: file.read_bytes() for file in short.rglob("*") if file.is_file()}
    for train in ([first, [*range(501, 1101)]], [first[::-1], other[1:]], [first], [[*range(700)]]):
        lists.write_text(json.dumps({"train": train, "test": tests[: len(train)]}))
        what = "samples, inputs or labels in its tasks|another enrolment of its clients"
        with pytest.raises(ConfigError, match=rf"the run was (made|started) with (other )?({what})"):
            resumed(short, rounds=2)
        assert {file: file.read_bytes() for file in short.rglob("*") if file.is_file()} == before
    lists.write_text(json.dumps({"train": [first[::-1], other], "test": tests}))  # an order says nothing
    assert resumed(short, rounds=2) == short


def test_a_run_does_not_go_on_with_other_inputs_or_in_another_single_task(tmp_path: Path) -> None:
    own = tmp_path / "dimmed.py"
    text = (
        "from fl_ddp.api import Permuted\n\nclass Dimmed(Permuted):\n    def inputs(self, task, x, rng):\n"
        "        return x * SHARE\n"
    )
    own.write_text(text.replace("SHARE", "0.5"))
    given = {**SMALL, "partition": "IID", "stream.task_rounds": 1, "stream.tasks": 2, "rounds": 1}
    federation = build_federation(from_mapping({**given, "stream": f"{own}:Dimmed"}), SOLO)
    before = federation.worlds.sha256
    lists = tmp_path / "one.json"
    lists.write_text(json.dumps({"train": [[*range(900)]], "test": [[*range(50)]]}))
    single = {**SMALL, "partition": "IID", "stream": "FromFile", "stream.path": str(lists), "rounds": 1}
    short = simulated(single, tmp_path)
    lists.write_text(json.dumps({"train": [[*range(900)]], "test": [[*range(60)]]}))
    with pytest.raises(ConfigError, match=r"the run was made with other samples"):
        resumed(short, rounds=2)
    own.with_name("dimmer.py").write_text(text.replace("SHARE", "0.4"))
    darker = build_federation(from_mapping({**given, "stream": f"{own.with_name('dimmer.py')}:Dimmed"}), SOLO)
    again = build_federation(from_mapping({**given, "stream": f"{own}:Dimmed"}), SOLO)
    assert again.worlds.sha256 == before != darker.worlds.sha256


def test_who_never_trains_in_a_task_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    lists = tmp_path / "tasks.json"
    lists.write_text(json.dumps({"train": [[*range(1200)], [*range(60)]], "test": [[0], [1]]}))
    settings = {**SMALL, "partition": "IID", "stream": "FromFile", "stream.path": str(lists), "stream.task_rounds": 1}
    simulated({**settings, "rounds": 2, "drop_last": True, "batch_size": 4}, tmp_path)
    told = [line for line in capfd.readouterr().out.splitlines() if "have no full batch" in line]
    assert len(told) == 1
    assert re.search(r"of the 12 clients \d+ in task 2 have no full batch of 4 and do not train in it; ", told[0])


def test_forgetting_counts_classes_from_when_they_are_first_tested(run: Path) -> None:
    with (run / "metrics.csv").open(newline="") as file:
        table = [row for row in csv.DictReader(file) if row["accuracy"] and row["round"] != "0"]
    course = [[float(row[f"accuracy/{label}"] or "nan") for label in range(9)] for row in table]
    lost = np.nanmax(course, 0) - course[-1]
    assert np.isfinite(lost).all() and float(table[-1]["forgetting"]) == pytest.approx(lost.mean())
    assert all(json.loads((run / "summary.json").read_text())["class_forgetting"][str(k)] is not None for k in range(9))


def test_latest_curvature_is_that_of_the_last_round_with_clients(tmp_path: Path) -> None:
    """One client alone is held to nobody: FedCurv is FedAvg, after skipped rounds, too."""
    who = tmp_path / "who.csv"
    who.write_text("1,0,1\n")
    settings = {
        "clients": 1, "cohort": 1, "stream": "Static", "stream.tasks": 3, "stream.task_rounds": 1,
        "stream.enrolment": str(who), "stream.empty": "skip", "local_test": 0, "forgetting_every": 0,
    }  # fmt: skip
    ours = play({**settings, "method": "FedCurv", "method.partial": "last_round", "method.lam": 5.0})
    theirs = play({**settings, "method": "FedAvg"})
    assert torch.equal(ours.state.server["theta"], theirs.state.server["theta"])


def test_a_stream_that_writes_in_its_inputs_harms_no_other_task(tmp_path: Path) -> None:
    file = tmp_path / "wipes.py"
    file.write_text(
        "from fl_ddp.api import Permuted\n\nclass Wipes(Permuted):\n    def inputs(self, task, x, rng):\n"
        "        return x.mul_(0) if task else x\n"
    )
    federation = build_federation(from_mapping({**SETTINGS, "stream": f"{file}:Wipes", "stream.task_rounds": 1}), SOLO)
    assert not federation.worlds.at(1).train.x.any() and federation.worlds.at(0).train.x.any()


def test_a_client_that_comes_back_finds_its_memory(tmp_path: Path) -> None:
    who = tmp_path / "who.csv"
    who.write_text("1,0,1\n" + "0,1,0\n" + "1,1,1\n" * 10)
    settings = {**TASKS, "cohort": 12, "stream.enrolment": str(who), "method": "Scaffold"}
    states = course(simulated(settings, tmp_path))
    mine = [state.memory for state in states]
    assert mine[0]["ids"].tolist() == [0, *range(2, 12)]
    assert mine[3]["ids"].tolist() == list(range(12))
    (name,) = (name for name in mine[0] if name != "ids")
    assert torch.equal(mine[1][name][0], mine[3][name][0])  # away in the second task
    assert not torch.equal(mine[3][name][0], mine[4][name][0])


def test_a_method_is_told_the_task_and_its_end(tmp_path: Path) -> None:
    method = tmp_path / "told.py"
    method.write_text(
        "from dataclasses import dataclass\n"
        "import torch\n"
        "from fl_ddp.api import FedAvg\n\n\n"
        "@dataclass(frozen=True)\n"
        "class Told(FedAvg):\n"
        "    def init(self):\n"
        "        beside = {'ends': torch.zeros(9), 'task': torch.tensor(-1), 'group': torch.tensor(-1.0)}\n"
        "        return super().init() | beside\n\n"
        "    def client_update(self, group, server, memory):\n"
        "        upload = super().client_update(group, server, memory)\n"
        "        upload.sums['group'] = group.task * group.n\n"
        "        return upload\n\n"
        "    def server_update(self, server, total, info):\n"
        "        group = (total.sums['group'] / total.sums['weight']).float()\n"
        "        beside = {'task': torch.tensor(info.task), 'group': group}\n"
        "        return super().server_update(server, total, info) | beside\n\n"
        "    def end_of_task(self, server, task):\n"
        "        return server | {'ends': server['ends'].index_fill(0, torch.tensor(task), 1.0)}\n"
    )
    states = course(simulated({**TASKS, "method": f"{method}:Told"}, tmp_path))
    assert [int(state.server["task"]) for state in states] == [0, 0, 1, 1, 2, 2]
    assert [int(state.server["group"]) for state in states] == [0, 0, 1, 1, 2, 2]
    assert [state.server["ends"].nonzero().flatten().tolist() for state in states] == [
        [],
        [0],
        [0],
        [0, 1],
        [0, 1],
        [0, 1],
    ]


def test_the_losses_of_other_tasks_classes_do_not_count() -> None:
    """One step of a known task moves no weight of another's classes, whose logits have no part in its loss."""
    settings = {**TWO, "stream": "ClassGroups", "stream.size": 5, "rounds": 1, "local_steps": 1}
    kept = {name: play({**settings, "stream.scenario": name}) for name in ("task", "class")}
    for name, others_move in (("task", False), ("class", True)):
        federation = build_federation(from_mapping({**SETTINGS, **settings, "stream.scenario": name}), SOLO)
        moved = kept[name].states[0].server["theta"] - kept[name].first.server["theta"]
        *_, weight, bias = federation.model.leaves(moved)
        assert bool(weight[5:].any()) is bool(bias[5:].any()) is others_move
        assert weight[:5].any()


def test_a_logit_that_is_not_allowed_has_no_probability_and_no_gradient() -> None:
    logits = torch.tensor([[1.0, 5.0, 2.0]], requires_grad=True)
    allowed = torch.tensor([True, False, True])
    p = among(logits, allowed).softmax(1)
    assert p[0, 1] == 0 and p.sum() == 1
    (g,) = torch.autograd.grad(among(logits, allowed).logsumexp(1).sum(), logits)
    assert g[0, 1] == 0 and torch.allclose(g[0, [0, 2]], torch.tensor([1.0, 2.0]).softmax(0))
    assert among(logits, None) is logits


def test_rounds_that_do_not_reach_the_last_task_are_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    simulated({**TASKS, "rounds": 4}, tmp_path)
    assert "fl_ddp: warning: 4 rounds end in task 2 of 3; give more --rounds" in capsys.readouterr().out


def test_options_of_streams_are_checked() -> None:
    with pytest.raises(ConfigError, match=r"^--stream.keep: 1.5 is impossible; accepted: 0 < keep <= 1"):
        from_mapping({"stream.keep": 1.5})
    with pytest.raises(ConfigError, match=r"^--stream.task_rounds: 0 is impossible"):
        from_mapping({"stream.task_rounds": 0})
    assert from_mapping({"stream.keep": 0.5}).stream.init_args["keep"] == 0.5
    assert from_mapping({"stream.keep": True}).stream.init_args["keep"] is True
