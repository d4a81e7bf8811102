"""What clients tell of their training one by one, in cohorts.csv, is what the round's means are made of."""

from __future__ import annotations

import csv
import json
from itertools import groupby
from pathlib import Path

import pytest
from launching import SMALL, finished, numbers, resumed, simulated
from users_method import written

import fl_ddp

BODY = """
reports = ("share", "drift")

def client_update(self, group, server, memory):
    upload = super().client_update(group, server, memory)
    drift = alike(upload.theta - server["theta"]).norm(dim=1)
    share = Term(group.n, minus=torch.ones(()), weight=torch.where(group.n > 100, 2 * group.n, 0))
    return replace(upload, sums=upload.sums | {"share": share, "drift": drift})
"""
COLUMNS = ["train_loss", "method/share", "method/drift"]


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as opened:
        return [{k: v for k, v in row.items() if not k.startswith("time")} for row in csv.DictReader(opened)]


def settings(folder: Path, name: str, **more: object) -> dict[str, object]:
    """Of a run that logs its clients, by a method in a file that no other test imports."""
    folder.mkdir(exist_ok=True)
    return {**written(BODY, folder / f"{name}.py"), "local_test": 0.0, "log_clients": True, **more}


def test_means_of_what_is_logged_are_those_of_the_round_and_all_else_is_as_without(tmp_path: Path) -> None:
    more = {"dropout_rate": 0.6, "cohort": 3, "rounds": 6, "drop_last": True, "batch_size": 100}
    given = settings(tmp_path, "logs", **more)
    run, without = simulated(given, tmp_path / "a"), simulated({**given, "log_clients": False}, tmp_path / "b")
    assert rows(run / "metrics.csv") == rows(without / "metrics.csv"), "traffic, too"
    assert numbers(run).parameters == numbers(without).parameters
    told = rows(run / "cohorts.csv")
    assert [*told[0]] == ["round", "client", *COLUMNS] and [*rows(without / "cohorts.csv")[0]] == ["round", "client"]
    sizes = [len(part) for part in json.loads((run / "partition.json").read_text())["clients"]]
    of_round = {number: [*each] for number, each in groupby(told, key=lambda row: row["round"])}
    blank = set()
    for row in rows(run / "metrics.csv"):
        each = [(sizes[int(mine["client"])], mine) for mine in of_round.get(row["round"], [])]
        for column, power in {"train_loss": 1, "method/share": 1, "method/drift": 0}.items():
            counted = [(n**power, float(mine[column])) for n, mine in each if mine[column]]
            blank |= {column for _, mine in each if not mine[column]}
            mean = sum(w * value for w, value in counted) / sum(w for w, _ in counted) if counted else None
            assert row[column] == "" if mean is None else float(row[column]) == pytest.approx(mean, rel=1e-9), column
        assert all((mine["method/share"] == "") == (n <= 100) for n, mine in each)
        assert all(float(mine["method/share"] or n - 1) == n - 1 for n, mine in each)
        assert all((mine["train_loss"] == "") == (n < 100) for n, mine in each), "who takes no step has no loss"
    assert blank == {"train_loss", "method/share"}


def test_a_resumed_run_logs_what_one_that_never_stopped_does(tmp_path: Path) -> None:
    given = settings(tmp_path, "goes_on", rounds=4)
    whole, part = simulated(given, tmp_path / "whole"), simulated({**given, "rounds": 2}, tmp_path / "part")
    resumed(part, rounds=4)
    assert (part / "cohorts.csv").read_bytes() == (whole / "cohorts.csv").read_bytes()
    assert len(fl_ddp.load(part).cohorts) == 4 * 7


@pytest.mark.slow
def test_ranks_log_the_same(tmp_path: Path) -> None:
    given = settings(tmp_path, "on_ranks", rounds=2)
    one = simulated(given, tmp_path / "one")
    finished({**given, "out": tmp_path / "two"}, 2, tmp_path)
    assert (tmp_path / "two" / "run" / "cohorts.csv").read_bytes() == (one / "cohorts.csv").read_bytes()


def test_a_method_that_reports_nothing_logs_the_loss(tmp_path: Path) -> None:
    run = simulated({**SMALL, "method": "FedAvg", "rounds": 1, "log_clients": True}, tmp_path)
    assert [*rows(run / "cohorts.csv")[0]] == ["round", "client", "train_loss"]


def test_a_method_that_tells_of_no_loss_logs_none(tmp_path: Path) -> None:
    silent = BODY.replace("sums=upload.sums |", 'sums={n: t for n, t in upload.sums.items() if n != "loss"} |')
    given = {**written(silent, tmp_path / "silent.py"), "local_test": 0.0, "rounds": 1, "log_clients": True}
    run = simulated(given, tmp_path / "a")
    told = rows(run / "cohorts.csv")
    assert {row["train_loss"] for row in told} == {""} and all(row["method/drift"] for row in told)
    without = simulated({**given, "log_clients": False}, tmp_path / "b")
    assert rows(run / "metrics.csv") == rows(without / "metrics.csv")
