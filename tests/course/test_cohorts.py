"""cohorts.csv has the clients of each round, but for those that fail; a resumed run's is that of an unbroken one."""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

import pytest
from launching import SMALL, simulated

import fl_ddp
from fl_ddp.api import Record
from fl_ddp.check.runs import SOLO
from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import ConfigError
from fl_ddp.federation import build_federation

FAILING = {**SMALL, "dropout_rate": 0.6, "rounds": 6}


def cohorts(folder: Path) -> dict[int, list[int]]:
    """Of a run, by round."""
    with (folder / "cohorts.csv").open(newline="") as file:
        rows = [(int(row["round"]), int(row["client"])) for row in csv.DictReader(file)]
    return {index: [client for _, client in each] for index, each in groupby(rows, key=lambda row: row[0])}


def test_the_clients_of_each_round_but_those_that_fail(tmp_path: Path) -> None:
    seen: list[Record] = []
    turnout = build_federation(from_mapping(FAILING), SOLO).turnout
    due = {index + 1: sorted(turnout.of_round(index).tolist()) for index in range(6)}
    fl_ddp.simulate(FAILING, out=str(tmp_path), callbacks=[seen.append])
    assert cohorts(tmp_path / "run") == {index: clients for index, clients in due.items() if clients}
    assert {record.round: list(record.clients) for record in seen} == due
    assert all(record.cohort == len(record.clients) for record in seen)
    assert len(set(map(tuple, due.values()))) > 1 and any(len(clients) < 7 for clients in due.values())


def test_a_resumed_run_has_the_bytes_of_one_that_never_stopped(tmp_path: Path) -> None:
    whole = simulated(FAILING, tmp_path / "whole")
    part = simulated({**FAILING, "rounds": 3}, tmp_path / "part")
    with (part / "cohorts.csv").open("a") as file:
        file.write("4,99\n")
    fl_ddp.simulate({"resume": str(part), "rounds": 6})
    assert (part / "cohorts.csv").read_bytes() == (whole / "cohorts.csv").read_bytes()


def test_an_edited_file_is_refused(tmp_path: Path) -> None:
    part = simulated({**FAILING, "rounds": 3}, tmp_path)
    text = (part / "cohorts.csv").read_text()
    (part / "cohorts.csv").write_text(text.replace("1,", "2,", 1))
    with pytest.raises(ConfigError, match=r"cohorts\.csv: was edited"):
        fl_ddp.simulate({"resume": str(part), "rounds": 6})
