"""clients.csv has a row for each client that was tested, and a resumed run's is that of one that never stopped."""

from __future__ import annotations

import csv
import hashlib
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL, resumed, simulated
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fl_ddp.check.runs import SOLO, course
from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import ConfigError
from fl_ddp.evaluation.models import Evaluation, Received
from fl_ddp.evaluation.scores import Scores
from fl_ddp.federation import build_federation
from fl_ddp.guards.hooks import Hooks
from fl_ddp.results.client_table import COLUMNS, ClientScores, ClientTable, spread

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
        assert clients == list(range(6))
        own = [float(row["own_accuracy"]) for row in here if row["own_accuracy"]]
        received = [float(row["received_accuracy"]) for row in here if row["received_accuracy"]]
        column = {"cohort": "personalised_accuracy", "all": "personalised_accuracy_all"}[personalise]
        assert sum(own) / len(own) == pytest.approx(metric(run, column)[finished], abs=1e-12)
        assert sum(received) / len(received) == pytest.approx(metric(run, "initial_accuracy")[finished], abs=1e-12)
        trained = [row for row in here if row["own_accuracy"]]
        assert len(trained) == (6 if personalise == "all" else 3)
        for row in here:
            assert int(row["samples"]) > 0
            assert bool(row["received_accuracy"]) == bool(row["received_loss"]) == (int(row["test_samples"]) > 0)
            assert bool(row["own_accuracy"]) == bool(row["own_loss"])
            right = float(row["own_accuracy"] or 0) * int(row["test_samples"])
            assert right == pytest.approx(round(right), abs=1e-9)


@pytest.mark.slow
def test_the_cohort_s_rows_are_those_of_all(tmp_path: Path) -> None:
    cohort, everybody = (
        rows(simulated({**TESTED, "personalise": who, "name": who}, tmp_path)) for who in ("cohort", "all")
    )
    for few, row in zip(cohort, everybody, strict=True):
        unknown = {} if few["own_accuracy"] else {"own_accuracy": "", "own_loss": ""}
        assert few == {**row, **unknown}
    assert len({row["received_accuracy"] for row in everybody if row["round"] == "4"}) > 3, "they can be told apart"
    assert len({row["own_loss"] for row in everybody if row["round"] == "4"}) == 6


def test_losses_are_those_of_a_plain_forward_pass(tmp_path: Path) -> None:
    """With a cohort of one the model after a round is its client's own."""
    settings = {**TESTED, "cohort": 1, "eval_every": 1, "keep_checkpoints": 9}
    run = simulated(settings, tmp_path)
    federation = build_federation(from_mapping(settings), SOLO)
    theta = [federation.model.init(), *(state.server["theta"] for state in course(run))]
    samples = federation.worlds.at(0).own_samples
    for row in rows(run):
        own = torch.from_numpy(federation.local_test[int(row["client"])])
        for column, after in (("received", 0), ("own", 1)):
            if row[f"{column}_loss"]:
                logits = federation.model.logits(
                    theta[int(row["round"]) - 1 + after], samples.inputs(samples.x[own], torch.float32)
                )
                plain = float(torch.nn.functional.cross_entropy(logits.double(), samples.y[own]))
                assert float(row[f"{column}_loss"]) == pytest.approx(plain, rel=1e-5)
                right = float((logits.argmax(1) == samples.y[own]).double().mean())
                assert float(row[f"{column}_accuracy"]) == pytest.approx(right, abs=1e-12)
    assert sum(row["own_loss"] != "" for row in rows(run)) == 4


def test_a_spread_by_hand() -> None:
    assert spread([]) is spread([None, math.nan]) is None
    assert spread([0.25, None]) == (0.0, 0.25)
    assert spread([0.5, 1.0, 0.0, 0.5]) == (math.sqrt(0.125), 0.0)
    twenty_nine = [0.2, 0.1, math.nan, *[1.0] * 27]
    found = spread(twenty_nine)
    assert found is not None and found.worst == pytest.approx((0.1 + 0.2) / 2, abs=1e-15)
    mean = 27.3 / 29
    squares = (0.1 - mean) ** 2 + (0.2 - mean) ** 2 + 27 * (1 - mean) ** 2
    assert found.deviation == pytest.approx(math.sqrt(squares / 29), abs=1e-15)
    assert spread(reversed(twenty_nine)) == found


def test_the_summary_and_tensorboard_tell_how_far_clients_differ(tmp_path: Path) -> None:
    """Also those of before a resume."""
    run = resumed(simulated({**TESTED, "rounds": 2}, tmp_path), rounds=4)
    summary = json.loads((run / "summary.json").read_text())
    events = EventAccumulator(str(run), size_guidance={"histograms": 0})
    events.Reload()
    for column, name in (("received", "initial"), ("own", "personalised")):
        known = [(row["round"], row[f"{column}_accuracy"]) for row in rows(run)]
        of_round = {index: [float(v) for each, v in known if v and each == str(index)] for index in (2, 4)}
        last = of_round[4]
        assert summary[f"{name}_accuracy"] == pytest.approx(np.mean(last), abs=1e-12)
        assert summary[f"{name}_accuracy_worst"] == min(last)
        assert summary[f"{name}_accuracy_deviation"] == pytest.approx(np.std(last), abs=1e-12)
        for measure, expected in (("worst", min), ("deviation", np.std)):
            shown = {each.step: each.value for each in events.Scalars(f"clients/{name}/{measure}")}
            assert shown == pytest.approx({index: expected(values) for index, values in of_round.items()}, abs=1e-6)
        drawn = {each.step: each.histogram_value for each in events.Histograms(f"clients/{name}")}
        for finished, values in of_round.items():
            assert drawn[finished].num == len(values) and drawn[finished].sum == pytest.approx(sum(values))


def test_a_run_of_other_columns_does_not_go_on(tmp_path: Path) -> None:
    run = simulated({**TESTED, "rounds": 2}, tmp_path)
    file, state = run / "clients.csv", run / "checkpoints" / "latest"
    old = "".join(",".join(line.split(",")[:6]) + "\n" for line in file.read_text().splitlines()).encode()
    file.write_bytes(old)
    with pytest.raises(ConfigError) as error:
        ClientTable(file, {"bytes": len(old), "sha256": hashlib.sha256(old).hexdigest()}, "accuracy")
    what = (
        "was begun by another version, or a method that reports other numbers, with other columns; the run cannot go on"
    )
    assert str(error.value) == f"{file}: {what} with this one" and state.exists()


@pytest.mark.slow
def test_a_resumed_run_cuts_what_its_checkpoint_does_not_know(tmp_path: Path) -> None:
    whole = simulated(TESTED, tmp_path / "whole")
    part = simulated({**TESTED, "rounds": 2}, tmp_path / "part")
    with (part / "clients.csv").open("a") as file:
        file.write("3,0,1,1,0.5,0.5,1.0,1.0\n")
    resumed(part, rounds=4)
    assert (part / "clients.csv").read_bytes() == (whole / "clients.csv").read_bytes()


def test_what_its_checkpoint_does_not_know_is_cut_before_anything_is_written(tmp_path: Path) -> None:
    file = tmp_path / "clients.csv"
    table = ClientTable(file, None, "accuracy")
    table.add(1, [ClientScores(0, 5, 2, 0.5, 1.0, 0.75, 0.25)])
    known, state = file.read_bytes(), table.file.state()
    table.add(2, [ClientScores(0, 5, 2, 0.5, 1.0, 0.75, 0.25)])
    ClientTable(file, state, "accuracy")
    assert file.read_bytes() == known


def test_an_edited_file_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "clients.csv"
    table = ClientTable(file, None, "accuracy")
    table.add(1, [ClientScores(0, 5, 2, 0.5, 1.0, 0.75, 0.25), ClientScores(3, 5, 0, None, None)])
    state = table.file.state()
    assert file.read_text().splitlines()[1:] == ["1,0,5,2,0.5,1.0,0.75,0.25", "1,3,5,0,,,,"]
    again = ClientTable(file, state, "accuracy")
    assert [*again.earlier] == [(1, [ClientScores(0, 5, 2, 0.5, 1.0, 0.75, 0.25), ClientScores(3, 5, 0, None, None)])]
    again.add(2, [])
    file.write_text(file.read_text().replace("1.0", "0.9"))
    with pytest.raises(ConfigError, match=r"clients\.csv: was edited, its first \d+ bytes"):
        ClientTable(file, state, "accuracy")


def test_without_own_test_samples_there_is_no_file(tmp_path: Path) -> None:
    assert not (simulated({**SMALL, "rounds": 1}, tmp_path) / "clients.csv").exists()


def test_a_client_s_samples_are_those_that_it_has_in_the_round() -> None:
    """The two tables of clients, by client, and by client and class."""
    given = {**SMALL, "partition": "IID", "clients": 4, "cohort": 4, "local_test": 0.2, "class_reduction": "0,1,2,0"}
    federation = build_federation(from_mapping(given), SOLO)
    ids, own = np.arange(4), [federation.labels[part] for part in federation.clients]
    of_client, of_class = [len(labels) for labels in own], np.bincount(own[0], minlength=10).tolist()
    lost, nothing = of_class[1], torch.zeros(4)
    received = Scores(0.5, 1.0, (0.5,) * 10, ((2,) + (0,) * 9,) * 10)
    for index, left in enumerate((lost, 0)):
        evaluation = Evaluation(federation, federation.worlds.at(index), SOLO, Hooks(federation.method, "MLP"))
        scores = evaluation.of_clients(ids, Received(), {"own_accuracy": nothing, "own_loss": nothing})
        assert [each.samples for each in scores] == [of_client[0] - lost + left, *of_client[1:]]
        changes = evaluation.changes(ids[:1], received, torch.ones(1, 10))
        assert [each.samples for each in changes] == [of_class[0], left, *of_class[2:]]
    assert lost > 0
