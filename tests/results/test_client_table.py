"""clients.csv has a row for each client that was tested, and a resumed run's is that of one that never stopped."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from launching import SMALL, resumed, simulated

from fl_ddp.errors import ConfigError
from fl_ddp.results.client_table import COLUMNS, ClientScores, ClientTable

TESTED = {**SMALL, "clients": 6, "cohort": 3, "rounds": 4, "local_test": 0.2, "eval_every": 2, "checkpoint_every": 1}


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "clients.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def metric(folder: Path, column: str) -> dict[int, float]:
    """By evaluated round."""
    with (folder / "metrics.csv").open(newline="") as file:
        return {int(row["round"]): float(row[column]) for row in csv.DictReader(file) if row[column]}


@pytest.mark.parametrize("personalise", ["cohort", "all"])
def test_the_means_of_clients_are_those_of_metrics(tmp_path: Path, personalise: str) -> None:
    run = simulated({**TESTED, "personalise": personalise}, tmp_path)
    found = rows(run)
    assert tuple(found[0]) == COLUMNS
    assert {row["round"] for row in found} == {"2", "4"}
    for finished in (2, 4):
        here = [row for row in found if row["round"] == str(finished)]
        clients = [int(row["client"]) for row in here]
        assert clients == sorted(set(clients)) and len(clients) == (6 if personalise == "all" else 3)
        own = [float(row["own_accuracy"]) for row in here if row["own_accuracy"]]
        received = [float(row["received_accuracy"]) for row in here if row["received_accuracy"]]
        column = {"cohort": "personalised_accuracy", "all": "personalised_accuracy_all"}[personalise]
        assert sum(own) / len(own) == pytest.approx(metric(run, column)[finished], abs=1e-12)
        if personalise == "all":
            assert sum(received) / len(received) == pytest.approx(metric(run, "initial_accuracy")[finished], abs=1e-12)
        for row in here:
            assert int(row["samples"]) > 0
            assert bool(row["own_accuracy"]) == (int(row["test_samples"]) > 0)
            right = float(row["own_accuracy"] or 0) * int(row["test_samples"])
            assert right == pytest.approx(round(right), abs=1e-9)


def test_the_cohort_s_rows_are_among_those_of_all(tmp_path: Path) -> None:
    cohort, everybody = (
        rows(simulated({**TESTED, "personalise": who, "name": who}, tmp_path)) for who in ("cohort", "all")
    )
    assert all(row in everybody for row in cohort)
    assert len({row["received_accuracy"] for row in everybody if row["round"] == "4"}) > 3, "they can be told apart"


def test_a_resumed_run_cuts_what_its_checkpoint_does_not_know(tmp_path: Path) -> None:
    whole = simulated(TESTED, tmp_path / "whole")
    part = simulated({**TESTED, "rounds": 2}, tmp_path / "part")
    with (part / "clients.csv").open("a") as file:
        file.write("3,0,1,1,0.5,0.5\n")
    resumed(part, rounds=4)
    assert (part / "clients.csv").read_bytes() == (whole / "clients.csv").read_bytes()


def test_an_edited_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "clients.csv"
    table = ClientTable(file, None)
    table.add(1, [ClientScores(0, 5, 2, 0.5, 1.0), ClientScores(3, 5, 0, None, None)])
    state = table.file.state()
    assert file.read_text().splitlines()[1:] == ["1,0,5,2,0.5,1.0", "1,3,5,0,,"]
    ClientTable(file, state).add(2, [])
    file.write_text(file.read_text().replace("1.0", "0.9"))
    with pytest.raises(ConfigError, match=r"clients\.csv: was edited, its first \d+ bytes"):
        ClientTable(file, state)


def test_without_own_test_samples_there_is_no_file(tmp_path: Path) -> None:
    assert not (simulated({**SMALL, "rounds": 1}, tmp_path) / "clients.csv").exists()
