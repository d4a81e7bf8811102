"""launch.results --against: settings beside one of them, seed by seed."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Mapping, Sequence
from math import sqrt
from pathlib import Path

import pytest
from written_runs import Written, design_in

from fl_ddp.errors import ConfigError
from launch.compare.found_runs import find_runs
from launch.compare.paired import Against, Paired, against
from launch.compare.replicates import Design, Replicates, design_of
from launch.numbers.metric import Metric, parse_metric
from launch.results import main

FINAL = parse_metric("final")
T_OF_THREE = 4.302652729911275
"""Student's t with two degrees of freedom, at 0.975: tables have it."""


def written(values: Mapping[str, Sequence[float]], **options: object) -> dict[str, Written]:
    """Runs of methods, each with a final accuracy for every seed."""
    return {
        f"{method},seed={seed}{options}".replace("/", "-"): Written(
            {"method": method, "seed": seed, **options}, [0.3, accuracy]
        )
        for method, of in values.items()
        for seed, accuracy in enumerate(of)
    }


def test_differences_are_of_the_same_seeds(tmp_path: Path) -> None:
    design = design_in(tmp_path, written({"FedAvg": [0.50, 0.60, 0.70], "Scaffold": [0.52, 0.63, 0.71, 0.1]}))
    there = against("method=FedAvg", design)
    found = differences(there, 1)
    assert found.by_seed == pytest.approx({0: 2.0, 1: 3.0, 2: 1.0}) and found.better == 3
    assert found.mean == pytest.approx(2.0)
    half = T_OF_THREE * 1.0 / sqrt(3)
    assert found.interval == pytest.approx((2 - half, 2 + half))
    assert found.shown("percent") == f"+2.00 [{2 - half:+.2f}, {2 + half:+.2f}]"
    assert there.paired(design.sets[0], FINAL) == "", "it is compared with itself"


def differences(there: Against, number: int, metric: Metric = FINAL) -> Paired:
    """Of a setting."""
    found = there.paired(there.design.sets[number], metric)
    assert isinstance(found, Paired)
    return found


def test_less_is_better_where_less_is_better(tmp_path: Path) -> None:
    design = design_in(tmp_path, written({"FedAvg": [0.50, 0.60], "Scaffold": [0.52, 0.5]}))
    missed = against("method=FedAvg", design).paired(design.sets[1], parse_metric("rounds_to 0.51"))
    assert missed == "a target that was missed", "by FedAvg's first seed"
    found = differences(against("method=Scaffold", design), 0, parse_metric("rounds_to 0.5"))
    assert found.by_seed == {0: 0.0, 1: 0.0} and found.better == 0
    reached = {
        f"{method}{seed}": Written({"method": method, "seed": seed}, curve)
        for method, curve in (("FedAvg", [0.1, 0.2, 0.6]), ("Scaffold", [0.1, 0.6, 0.6]))
        for seed in (0, 1)
    }
    design = design_in(tmp_path / "reached", reached)
    found = differences(against("method=FedAvg", design), 1, parse_metric("rounds_to 0.5"))
    assert found.by_seed == {0: -1.0, 1: -1.0} and found.better == 2
    forgetting = {
        f"{method}{seed}": Written({"method": method, "seed": seed}, [0.5, 0.5], forgetting=[0.0, lost])
        for method, of in (("FedAvg", (0.2, 0.3)), ("Scaffold", (0.1, 0.25)))
        for seed, lost in enumerate(of)
    }
    design = design_in(tmp_path / "forgetting", forgetting)
    found = differences(against("method=FedAvg", design), 1, parse_metric("final of forgetting"))
    assert found.by_seed == pytest.approx({0: -10.0, 1: -5.0}) and found.better == 2


def test_all_else_must_be_alike_but_for_the_options_of_what_is_named(tmp_path: Path) -> None:
    runs: dict[str, Written] = {}
    for alpha in (0.1, 1.0):
        runs |= written({"FedAvg": [alpha / 2, alpha / 4]}, **{"partition": "Dirichlet", "partition.alpha": alpha})
        for mu in (1, 2):
            values = {"FedProx": [alpha / 2 + mu / 100, alpha / 4 + mu / 100]}
            runs |= written(values, **{"partition": "Dirichlet", "partition.alpha": alpha, "method.mu": mu})
    design = design_in(tmp_path, runs)
    assert design.names == ("alpha", "method", "mu")
    found = {each.values: against("method=FedAvg", design).paired(each, FINAL) for each in design.sets}
    gains = {values: round(each.mean, 9) if isinstance(each, Paired) else None for values, each in found.items()}
    assert gains == {
        ("0.1", "FedAvg", ""): None, ("1", "FedAvg", ""): None,
        ("0.1", "FedProx", "1"): 1.0, ("0.1", "FedProx", "2"): 2.0,
        ("1", "FedProx", "1"): 1.0, ("1", "FedProx", "2"): 2.0,
    }  # fmt: skip
    with pytest.raises(ConfigError, match=r"method=FedProx is of method.mu=1 and method.mu=2; accepted: .*method.mu=V"):
        against("method=FedProx", design).paired(design.sets[0], FINAL)
    found = {each.values: against("method=FedProx,mu=1", design).paired(each, FINAL) for each in design.sets}
    assert [values for values, each in found.items() if isinstance(each, Paired) and each.mean == pytest.approx(1)] == [
        ("0.1", "FedProx", "2"), ("1", "FedProx", "2"),
    ]  # fmt: skip


def test_equal_differences_have_no_width_and_one_seed_no_interval(tmp_path: Path) -> None:
    design = design_in(tmp_path, written({"FedAvg": [0.5, 0.5], "Scaffold": [0.625, 0.625]}))
    assert differences(against("method=FedAvg", design), 1).interval == (12.5, 12.5)
    design = design_in(tmp_path / "one", written({"FedAvg": [0.5], "Scaffold": [0.25]}))
    found = differences(against("method=FedAvg", design), 1)
    assert found.interval is None and found.shown("percent") == "-25.00" and found.better == 0


def test_each_metric_that_is_asked_for_is_compared_and_ties_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = {
        f"{method}{seed}": Written({"method": method, "seed": seed}, curve)
        for method, of in {"FedAvg": ([0.5, 0.25], [0.5, 0.5]), "Scaffold": ([0.5, 0.375], [0.75, 0.5])}.items()
        for seed, curve in enumerate(of)
    }
    design_in(tmp_path, runs)
    asked = ["--metric", "final", "--metric", "best"]
    assert main([str(tmp_path), "--against", "method=FedAvg", *asked]) == 0
    out = capsys.readouterr().out
    assert re.search(r"vs method=FedAvg +better in .* vs that +better in", out) and out.count("1 of 2, 1 alike") == 2
    assert "difference in each, and its 95 %" in out
    with (tmp_path / "results.csv").open(newline="") as table:
        _, row = csv.DictReader(table)
    assert (row["difference_mean"], row["best_difference_mean"]) == ("6.25", "12.5")
    assert main([str(tmp_path), "--against", "method=FedAvg"]) == 0
    assert "difference in each, by final, and" in capsys.readouterr().out
    assert main([str(tmp_path), "--against", "method=FedAvg", *asked, "--metric", "rounds_to 0.7"]) == 0
    missed = "Scaffold: nothing to compare it with, a target that was missed (by rounds_to 0.7)"
    assert missed in capsys.readouterr().out


def test_both_are_read_after_the_same_round(tmp_path: Path) -> None:
    curves = {"FedAvg": ([0.1, 0.2, 0.9], [0.1, 0.2, 0.8]), "Scaffold": ([0.1, 0.2, 0.9], [0.1, 0.3])}
    runs = {
        f"{method}{seed}": Written({"method": method, "seed": seed}, curve)
        for method, of in curves.items()
        for seed, curve in enumerate(of)
    }
    design = design_in(tmp_path, runs)
    found = differences(against("method=FedAvg", design), 1)
    assert found.by_seed == pytest.approx({0: 0.0, 1: 10.0}) and found.after == 2
    assert main([str(tmp_path), "--against", "method=FedAvg"]) == 0
    with (tmp_path / "results.csv").open(newline="") as table:
        assert [row["difference_round"] for row in csv.DictReader(table)] == ["", "2"]
    assert differences(against("method=FedAvg", design), 1, parse_metric("rounds_to 0.2")).after is None

    for seed in (0, 1):  # as --eval_every 2 leaves it: the last round always, others not
        file = tmp_path / f"FedAvg{seed}" / "metrics.csv"
        head, first, second, third = file.read_text().splitlines()
        cells = second.split(",")
        cells[head.split(",").index("accuracy")] = ""
        file.write_text("\n".join([head, first, ",".join(cells), third]) + "\n")
    found = differences(against("method=FedAvg", design_of(find_runs([tmp_path]).runs)), 1)
    assert found.by_seed == {0: 0.0, 1: 0.0} and found.after == 1

    longer = {f"{n}{seed}": Written({"seed": seed}, [0.1, 0.2, 0.5][:n]) for n in (2, 3) for seed in (0, 1)}
    design = design_in(tmp_path / "rounds", longer)
    found = differences(against("rounds=2", design), 1)
    assert found.by_seed == pytest.approx({0: 30.0, 1: 30.0}) and found.after is None, "that is what is asked for"


def test_where_nothing_can_be_compared_it_is_told_why(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = {
        "a": Written({"method": "FedAvg", "lr": 0.1}, [0.5, 0.5]),
        "b": Written({"method": "Scaffold", "lr": 0.2}, [0.5, 0.5]),
        "c": Written({"method": "FedDyn", "lr": 0.1}, [0.5], rounds=2),
        "d": Written({"method": "FedNova", "lr": 0.1, "seed": 1}, [0.5, 0.5]),
    }
    design_in(tmp_path, runs)
    assert main([str(tmp_path), "--against", "method=FedAvg"]) == 0
    said = capsys.readouterr().out
    for whose, why in (
        ("Scaffold, 0.2", "no setting with all else alike"),
        ("FedDyn, 0.1", "not finished yet"),
        ("FedNova, 0.1", "no seed in common"),
    ):
        assert f"{whose}: nothing to compare it with, {why}\n" in said


def test_a_seed_that_has_no_number_is_one_in_common(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lost = {"FedAvg": [0.5, 0.25], "FedProx": None}
    design_in(tmp_path, {name: Written({"method": name}, [0.5, 0.5], forgetting=each) for name, each in lost.items()})
    assert main([str(tmp_path), "--against", "method=FedAvg", "--metric", "final of forgetting"]) == 0
    said = capsys.readouterr().out
    assert "FedProx: nothing to compare it with, no number of it in a seed that both have\n" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("FedAvg", "--against: FedAvg: no option that varies among the runs; accepted: method=VALUE"),
        ("lr=1", "--against: lr=1: no option that varies among the runs; accepted: method=VALUE"),
        ("method=FedProx", "--against: method=FedProx: no run has it; accepted: method=FedAvg, method=Scaffold"),
    ],
)
def test_what_is_no_setting_is_told(text: str, message: str, tmp_path: Path) -> None:
    design = design_in(tmp_path, written({"FedAvg": [0.5], "Scaffold": [0.5]}))
    with pytest.raises(ConfigError) as told:
        against(text, design)
    assert str(told.value).startswith(message)


def test_the_command_has_them_in_its_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    design_in(tmp_path, written({"FedAvg": [0.50, 0.60, 0.70], "Scaffold": [0.52, 0.59, 0.71]}))
    assert main([str(tmp_path), "--against", "method=FedAvg"]) == 0
    said = capsys.readouterr().out
    assert "vs method=FedAvg" in said and "2 of 3" in said and "95 % confidence interval" in said
    with (tmp_path / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["difference_better"] for row in rows] == ["", "2"]
    assert float(rows[1]["difference_mean"]) == pytest.approx(2 / 3)
    assert float(rows[1]["difference_low"]) < 0 < float(rows[1]["difference_high"])
    assert "| vs method=FedAvg | better in |" in (tmp_path / "results.md").read_text()


def test_a_file_is_called_by_any_end_of_its_path_that_no_other_one_has() -> None:
    mine, other, yours = "/a/mine/ways.py:Mine", "/a/mine/ways.py:Other", "/yours/ways.py:Mine"
    design = Design(("method",), tuple(Replicates((name,), ()) for name in (mine, other, yours, "FedAvg")))
    for end in ("mine/ways.py:Mine", "a/mine/ways.py:Mine", mine):
        assert against(f"method={end}", design).values == {"method": mine}
    for end, many in (("ways.py:Mine", "several have"), ("s.py:Other", "no run has"), ("vg", "no run has")):
        with pytest.raises(
            ConfigError, match=f"--against: method={end}: {many} it; accepted: method=mine/ways.py:Mine, "
        ):
            against(f"method={end}", design)
    both = Design(("data",), tuple(Replicates((name,), ()) for name in ("MNIST", "/a/MNIST")))
    assert against("data=MNIST", both).values == {"data": "MNIST"}


def test_tables_call_a_file_by_the_end_of_its_path(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "ways_of_mine.py"
    file.write_text("from fl_ddp.methods.fedavg import FedAvg\n\n\nclass Mine(FedAvg):\n    pass\n")
    design_in(tmp_path / "runs", written({"FedAvg": [0.5, 0.6], f"{file}:Mine": [0.52, 0.59]}))
    assert main([str(tmp_path / "runs"), "--against", "method=ways_of_mine.py:Mine"]) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines() if "finished" in line]
    assert [row[0] for row in rows] == ["ways_of_mine.py:Mine", "FedAvg"] and "of" in rows[1]
    assert f"{file}:Mine," in (tmp_path / "runs" / "results.csv").read_text(), "which programs read"


def test_a_run_that_ended_by_its_rule_is_read_there_and_cuts_no_other_one(tmp_path: Path) -> None:
    curves = {
        "FedAvg": ([0.1, 0.8], [0.1, 0.2, 0.3, 0.4, 0.9]),
        "Scaffold": ([0.1, 0.3, 0.5, 0.7], [0.1, 0.2, 0.3, 0.6]),
    }
    for method, of in curves.items():
        for seed, curve in enumerate(of):
            rounds = 5 if method == "FedAvg" else 4
            Written({"method": method, "seed": seed}, curve, rounds).at(tmp_path / f"{method}{seed}")
    (tmp_path / "FedAvg0" / "summary.json").write_text(json.dumps({"rounds": 2, "stopped": "accuracy is 0.8"}))
    found = differences(against("method=FedAvg", design_of(find_runs([tmp_path]).runs)), 1)
    assert found.by_seed == pytest.approx({0: -10.0, 1: 20.0}) and found.after == 4
