"""Who takes part in which round."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from launching import SMALL, simulated
from users_method import written

from fl_ddp.check.candidate import Case
from fl_ddp.check.judge import Judge
from fl_ddp.check.runs import SOLO, course
from fl_ddp.config.command_line import from_mapping
from fl_ddp.federation import build_federation
from fl_ddp.ranks.cohort import cohort
from fl_ddp.tasks.turnout import Turnout

CONFORMANCE = ("lanes", "padding", "order", "again", "shapes", "intact", "ranks", "resume")
LITTLE: dict[str, object] = {"model.hidden": 4, "compile": False, "figures": False, "device": "cpu"}


def turnout(**settings: object) -> Turnout:
    return build_federation(from_mapping({**LITTLE, **settings}), SOLO).turnout


def rows(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_clients_fail_as_often_as_asked_each_by_itself() -> None:
    rounds, rate = 400, 0.3
    it = turnout(clients=40, dropout_rate=rate)
    left = np.zeros((rounds, 40))
    for index in range(rounds):
        assert it.drawn(index).tolist() == list(range(40))
        left[index, it.of_round(index)] = 1
    deviation = np.sqrt(rate * (1 - rate))
    assert abs(left.mean() - (1 - rate)) < 4 * deviation / np.sqrt(left.size)
    assert np.abs(left.mean(0) - (1 - rate)).max() < 5 * deviation / np.sqrt(rounds)
    assert np.abs(np.corrcoef(left.T) - np.eye(40)).max() < 5 / np.sqrt(rounds)
    assert np.abs(np.corrcoef(left[:-1].ravel(), left[1:].ravel())[0, 1]) < 5 / np.sqrt(left.size)


def test_whether_a_client_fails_depends_on_seed_and_round_and_on_no_other_client() -> None:
    everybody, some, other = (turnout(dropout_rate=0.5, **more) for more in ({}, {"cohort": 5}, {"seed": 1}))
    assert len({tuple(it.of_round(index)) for it in (everybody, other) for index in range(20)}) == 40
    for index in range(20):
        drawn = some.drawn(index)
        assert drawn.tolist() == cohort(0, index, np.arange(20), 5).tolist()
        assert some.of_round(index).tolist() == np.intersect1d(drawn, everybody.of_round(index)).tolist()


def test_clients_are_drawn_by_the_samples_that_they_have_in_a_rounds_task() -> None:
    given = {"partition": "Dirichlet", "partition.alpha": 0.3, "clients": 12, "cohort": 3, "rounds": 4}
    tasks = {"stream": "ClassGroups", "stream.tasks": 2, "stream.size": 5, "stream.task_rounds": 2}
    run = build_federation(from_mapping({**LITTLE, **given, **tasks, "client_sampling": "samples"}), SOLO)
    for index in range(4):
        parts = run.worlds.clients_in(index // 2)
        present = np.flatnonzero([len(part) for part in parts])
        sizes = np.array([len(parts[i]) for i in present])
        assert run.turnout.drawn(index).tolist() == cohort(0, index, present, 3, sizes).tolist()


def test_clients_are_drawn_by_the_samples_that_they_have_left() -> None:
    lost = ";".join(f"0,{label},20,0" for label in range(9))
    given = {"partition": "Dirichlet", "partition.alpha": 100.0, "clients": 4, "cohort": 1, "class_reduction": lost}
    run = build_federation(from_mapping({**LITTLE, **given, "client_sampling": "samples"}), SOLO)
    for index in range(60):
        sizes = np.array([len(part) for part in run.worlds.at(index).clients])
        assert (sizes[0] < sizes[1:].min() / 5) == (index >= 19)
        assert run.turnout.drawn(index).tolist() == cohort(0, index, np.arange(4), 1, sizes).tolist()


def test_the_previous_round_is_one_in_which_somebody_took_part() -> None:
    it = turnout(dropout_rate=0.7, cohort=2)
    numbers = [len(it.of_round(index)) for index in range(30)]
    assert 0 in numbers and 0 not in [numbers[index] for index in range(30) if it.previous(index + 1) == index]
    for index in range(31):
        assert it.previous(index) == max((i for i in range(index) if numbers[i]), default=-1)
    assert [turnout().previous(index) for index in range(3)] == [-1, 0, 1]


def test_a_client_that_fails_has_received_the_model_and_sends_nothing(tmp_path: Path) -> None:
    settings = {**SMALL, "dropout_rate": 0.6, "cohort": 3, "rounds": 6, "method": "Scaffold", "keep_checkpoints": 9}
    it = turnout(**{key: settings[key] for key in ("dropout_rate", "cohort")}, clients=12)
    run = simulated(settings, tmp_path)
    sizes, table = [len(it.of_round(index)) for index in range(6)], rows(run)
    assert 0 in sizes and len(set(sizes)) > 2
    assert [int(row["cohort"]) for row in table] == sizes
    assert len({row["traffic_down_bytes"] for row in table}) == 1
    up = [int(row["traffic_up_bytes"]) for row in table]
    assert up == [size * max(up) // max(sizes) for size in sizes]
    assert [row["train_loss"] == "" for row in table] == [size == 0 for size in sizes]
    states = course(run)
    for before, after, size in zip(states, states[1:], sizes[1:], strict=False):
        assert (before.unlike(after) == "") == (size == 0)
    known = {int(k) for index in range(6) for k in it.of_round(index)}
    assert set(states[-1].memory["ids"].tolist()) == known


@pytest.mark.slow
@pytest.mark.parametrize("method", ["FedCurv", pytest.param("Scaffold", marks=pytest.mark.slow)])
def test_bits_are_the_same_in_any_groups_on_any_ranks_and_after_a_kill(method: str, tmp_path: Path) -> None:
    (tmp_path / "who.csv").write_text("client,from,to\n0,3,\n1,1,1\n2,1,2\n")
    given = {"method": method, "dropout_rate": 0.4, "availability": str(tmp_path / "who.csv")}
    with Judge() as judge:
        found = list(judge.findings(Case(method, given, tmp_path), CONFORMANCE))
    assert [each for each in found if each.verdict != "holds"] == []


def test_whoever_trains_in_a_round_knows_the_same_of_it(tmp_path: Path) -> None:
    """Clients, the server that trains, and those who measure before: also where a round between has nobody."""
    (tmp_path / "who.csv").write_text("client,from,to\n" + "".join(f"{i},1,1\n{i},3,\n" for i in range(12)))
    body = """
        trains_on_server = True
        proxy = 0.1

        def measures(self, round_index):
            return True
        def measure(self, group, server):
            return seen("measure", group) or {"n": group.n}
        def measured(self, server, total):
            return server
        def client_update(self, group, server, memory):
            return seen("client", group) or super().client_update(group, server, memory)
        def server_train(self, group, server, total, info):
            return seen("server", group) or server
    """
    told = "print(hook, group.round, group.previous, group.ends_task, file=file)"
    tell = f"def seen(hook, group):\n    with open({str(tmp_path / 'seen')!r}, 'a') as file:\n        {told}\n"
    settings = written(body, tmp_path / "told.py")
    (tmp_path / "told.py").write_text(tell + (tmp_path / "told.py").read_text())
    tasks = {"stream": "ClassGroups", "stream.tasks": 2, "stream.task_rounds": 2, "rounds": 4}
    simulated({**settings, **tasks, "availability": str(tmp_path / "who.csv")}, tmp_path)
    found = {tuple(line.split()) for line in (tmp_path / "seen").read_text().splitlines()}
    rounds = [("0", "-1", "True"), ("2", "0", "False"), ("3", "2", "False")]
    measured = {("measure", "1", "0", "True")}  # without clients there is still a measurement
    assert found == measured | {(hook, *each) for each in rounds for hook in ("measure", "client", "server")}


@pytest.mark.parametrize(("stragglers", "told"), [(1, 1), (0.5, 0)])
def test_a_run_in_which_nobody_trains_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stragglers: float, told: int
) -> None:
    simulated({**SMALL, "rounds": 2, "local_epochs": 2, "stragglers": stragglers, "drop_stragglers": True}, tmp_path)
    assert capsys.readouterr().out.count("fl_ddp: warning: nobody has trained in any round\n") == told
