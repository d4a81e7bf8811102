"""The results of a run are those of its course."""

from __future__ import annotations

import csv
import json
import statistics
from pathlib import Path

import pytest
from launching import SMALL, numbers, resumed, simulated

TARGETS = (0.15, 0.3, 0.99)


def test_the_summary_says_what_metrics_csv_says(tmp_path: Path) -> None:
    settings = {
        "rounds": 7,
        "eval_every": 2,
        "local_test": 0.2,
        "personalise": "all",
        "targets": list(TARGETS),
        "lr": 1.0,
    }
    run = simulated({**SMALL, **settings}, tmp_path)
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    summary = json.loads((run / "summary.json").read_text())
    evaluated = [row for row in rows if row["accuracy"]]
    accuracies = [float(row["accuracy"]) for row in evaluated]
    means = [statistics.fmean(accuracies[: i + 1]) for i in range(len(accuracies))]
    assert [row["round"] for row in evaluated] == ["2", "4", "6", "7"] and accuracies[-1] < max(accuracies)
    for key in (
        "accuracy", "forgetting", "loss", "initial_accuracy", "personalised_accuracy", "initial_accuracy_cohort",
        "personalised_accuracy_all",
    ):  # fmt: skip
        assert summary[key] == float(rows[-1][key]), key
    assert len({summary[key] for key in summary if "initial" in key or "personalised" in key}) == 8
    assert summary["best_accuracy"] == max(accuracies)
    assert summary["running_mean_accuracy"] == float(rows[-1]["running_mean_accuracy"]) == pytest.approx(means[-1])
    for key in ("traffic_up_bytes", "traffic_down_bytes"):
        assert summary[key] == sum(int(row[key]) for row in rows), key
    assert summary["padded_lanes"] == pytest.approx(statistics.fmean(float(row["time_padded_lanes"]) for row in rows))
    for name, values in (("accuracy", accuracies), ("running_mean", means)):
        reached = {
            str(t): next((int(r["round"]) for r, v in zip(evaluated, values, strict=True) if v >= t), None)
            for t in TARGETS
        }
        assert summary["rounds_to_target"][name] == reached, name
    assert summary["rounds_to_target"]["accuracy"] != summary["rounds_to_target"]["running_mean"]


def test_other_targets_may_be_asked_of_a_run_that_goes_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = simulated({**SMALL, "rounds": 2, "targets": [0.99]}, tmp_path)
    resumed(run, rounds=3, targets=[0.001, 0.98])
    assert json.loads((run / "summary.json").read_text())["rounds_to_target"]["accuracy"] == {"0.001": 1, "0.98": None}
    before = numbers(run)
    resumed(run, targets=[0.002])
    assert json.loads((run / "summary.json").read_text())["rounds_to_target"]["accuracy"] == {"0.002": 1}, "it is over"
    assert numbers(run) == before
    capfd.readouterr()
    resumed(run, rounds=2, targets=[0.003])
    assert "warning: --targets are as they were; --rounds 3 tells the first rounds" in capfd.readouterr().out


def test_a_last_round_without_clients_leaves_what_is_known_of_them(tmp_path: Path) -> None:
    (tmp_path / "away.csv").write_text("client,from,to\n" + "".join(f"{k},1,2\n" for k in range(12)))
    away = {**SMALL, "local_test": 0.2, "availability": str(tmp_path / "away.csv")}
    run = simulated({**away, "rounds": 3}, tmp_path / "runs")
    with (run / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert rows[2]["cohort"] == "0" and not rows[2]["initial_accuracy"]
    summary = json.loads((run / "summary.json").read_text())
    for key in ("initial_accuracy", "personalised_accuracy"):
        assert summary[key] == float(rows[1][key]) and summary[f"{key}_worst"] is not None
