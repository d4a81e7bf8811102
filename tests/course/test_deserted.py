"""Rounds in which nobody trains, and what a summary says of a run that has some."""

from __future__ import annotations

import csv
import json
import os
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import numpy as np
import own_models
import pytest
from launching import SMALL, checkpoints, launched, resumed, simulated

from fl_ddp import simulate
from fl_ddp.api import Record
from fl_ddp.errors import InterruptedRunError
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.protocol import Round, Tensors

NORMED: Mapping[str, object] = {"model": f"{own_models.__file__}:Normed"}
PLAIN = {key: value for key, value in SMALL.items() if not key.startswith("model")}


def until(rounds: int, folder: Path) -> str:
    """A file by which nobody is available after so many rounds."""
    clients = SMALL["clients"]
    assert isinstance(clients, int)
    file = folder / f"until{rounds}.csv"
    file.write_text("client,from,to\n" + "".join(f"{client},1,{rounds}\n" for client in range(clients)))
    return str(file)


def summary_of(run: Path) -> dict[str, object]:
    """What summary.json holds of the results."""
    content: dict[str, object] = json.loads((run / "summary.json").read_text())
    return {key: value for key, value in content.items() if key not in ("folder", "seconds", "environment", "code")}


def test_a_stop_is_heard_where_nobody_trains(tmp_path: Path) -> None:
    def stop(record: Record) -> None:
        if record.round == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    given = {**SMALL, "availability": until(2, tmp_path), "rounds": 40, "out": str(tmp_path), "name": "stopped"}
    with pytest.raises(InterruptedRunError, match="round 3"):
        simulate(given, callbacks=[stop])
    assert len((tmp_path / "stopped" / "metrics.csv").read_text().splitlines()) < 10


@pytest.mark.slow
def test_two_ranks_hear_a_stop_where_nobody_trains(tmp_path: Path) -> None:
    given = {**SMALL, "availability": until(1, tmp_path), "rounds": 100_000, "out": str(tmp_path), "name": "stopped"}
    run = tmp_path / "stopped"
    with launched({**given, "checkpoint_every": 50}, 2, tmp_path) as launch:
        launch.until(lambda: checkpoints(run))
        launch.launcher.send_signal(signal.SIGTERM)
        launch.ended()
    done = len((run / "metrics.csv").read_text().splitlines()) - 1
    assert done < 100_000 and checkpoints(run)[-1] == f"round_{done:06d}"


@dataclass(frozen=True)
class FailsOnce(FedAvg):
    """Cannot say what it sends in round 4, as long as a file is there."""

    def sent_bytes(self, server: Tensors, in_round: Round) -> int:
        if in_round.index == 3 and (why := Path("fails")).exists():
            why.unlink()
            raise ValueError("it does not know")
        return super().sent_bytes(server, in_round)


def test_no_round_is_saved_without_its_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("fails").touch()
    given = {**SMALL, "availability": until(2, tmp_path), "rounds": 6, "method": f"{__file__}:FailsOnce"}
    with pytest.raises(ValueError, match="it does not know"):
        simulated(given, tmp_path)
    assert checkpoints(tmp_path / "run")[-1] == "round_000003"
    rows = (resumed(tmp_path / "run") / "metrics.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["1", "2", "3", "4", "5", "6"]


def test_a_run_that_goes_on_where_nobody_trains_ends_with_the_same_summary(tmp_path: Path) -> None:
    """Nor does a run have scores of its last model that are an earlier one's."""
    local = {**PLAIN, **NORMED, "running_statistics": "local", "estimate_statistics": True}
    given = {**local, "availability": until(1, tmp_path), "local_test": 0.0}
    whole = simulated({**given, "rounds": 3, "name": "whole"}, tmp_path)
    on = resumed(simulated({**given, "rounds": 2, "name": "part"}, tmp_path), rounds=3)
    assert summary_of(on) == summary_of(whole) and summary_of(whole)["accuracy"] is None


def test_lanes_are_padded_in_rounds_with_clients_alone(tmp_path: Path) -> None:
    run = simulated({**SMALL, "lanes": 4, "cohort": 3, "availability": until(2, tmp_path), "rounds": 4}, tmp_path)
    with (run / "metrics.csv").open(newline="") as file:
        padded = [float(row["time_padded_lanes"]) for row in csv.DictReader(file)]
    assert padded == [0.25, 0.25, 0, 0] and summary_of(run)["padded_lanes"] == 0.25


def test_means_and_spreads_of_clients_are_of_one_round(tmp_path: Path) -> None:
    """In one that client 0 trains in alone, who has no test samples, all are tested as they were before it."""
    division = tmp_path / "division.json"
    division.write_text(json.dumps({"clients": [[0, 1], [*range(2, 40)], [*range(40, 80)]]}))
    given = {**PLAIN, **NORMED, "partition": "FromFile", "partition.path": str(division), "clients": 3, "cohort": 1}
    given |= {"running_statistics": "local", "local_test": 0.2, "lr": 0.3, "local_epochs": 5, "seed": 7}
    run = simulated(given, tmp_path)
    assert (run / "cohorts.csv").read_text().splitlines()[1:] == ["1,1", "2,0", "3,0"]
    with (run / "clients.csv").open(newline="") as file:
        tested = [[float(a) for row in rows if (a := row["received_accuracy"])] for rows in by_round(file)]
    content = summary_of(run)
    assert [len(each) for each in tested] == [2, 2, 2] and tested[0] != tested[2]
    assert content["initial_accuracy"] == pytest.approx(sum(tested[2]) / 2)
    assert content["initial_accuracy_worst"] == min(tested[2])


def test_clients_that_have_no_test_samples_in_the_last_task_are_told_of_in_the_one_before(tmp_path: Path) -> None:
    """All of their own are of the classes of the first task."""
    x = np.random.default_rng(0).normal(size=(80, 4)).astype(np.float32)
    y, division = np.arange(80) % 4, tmp_path / "division.json"
    tested = [[i for i in range(60, 80) if y[i] == k] for k in (0, 1)]
    division.write_text(json.dumps({"clients": [[*range(30)], [*range(30, 60)]], "local_test": tested}))
    given = {**SMALL, "clients": 2, "cohort": 2, "partition": {"name": "FromFile", "path": str(division)}, "rounds": 2}
    given |= {"stream": {"name": "ClassGroups", "tasks": 2, "size": 2, "task_rounds": 1}, "local_test": 0.1}
    result = simulate({**given, "data": (x, y, x, y), "out": str(tmp_path)})
    for what in ("initial_accuracy", "personalised_accuracy"):
        assert result[what] is not None
        assert None not in (result[f"{what}_worst"], result[f"{what}_deviation"])


def by_round(file: Iterable[str]) -> list[list[dict[str, str]]]:
    """The rows of each round in a table."""
    return [[*rows] for _, rows in groupby(csv.DictReader(file), lambda row: row["round"])]
