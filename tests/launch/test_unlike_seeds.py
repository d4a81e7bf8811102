"""launch.results: seeds of one line that have other rounds, or were looked at in others."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from showing import Showing
from written_runs import Written


def looked_at(run: Path, every: int) -> None:
    """Leave the accuracy of each so many rounds, and of the last one."""
    head, *lines = (run / "metrics.csv").read_text().splitlines()
    column, kept = head.split(",").index("accuracy"), []
    for number, line in enumerate(lines, 1):
        cells = line.split(",")
        if number % every and number < len(lines):
            cells[column] = ""
        kept.append(",".join(cells))
    (run / "metrics.csv").write_text("\n".join([head, *kept]) + "\n")


def test_seeds_of_unlike_rounds_are_read_in_a_round_in_which_all_were_looked_at(show: Showing) -> None:
    """Each run looks at its last round, too: 5 of one, of the other 4."""
    for seed, rounds in enumerate((10, 5)):
        curve = [r / 100 for r in range(1, rounds + 1)]
        looked_at(Written({"seed": seed, "eval_every": 2}, curve).at(Path(f"runs/{seed}")), 2)
    out = show("runs")[1]
    with Path("runs/results.csv").open(newline="") as file:
        (row,) = csv.DictReader(file)
    assert (float(row["final_mean"]), float(row["final_spread"]), row["final_runs"]) == (4, 0, "2")
    assert "finished runs: as after round 4, though seeds were asked for 5, 10 rounds" in out


def test_settings_whose_seeds_have_unlike_rounds_are_compared_in_one_of_all(show: Showing) -> None:
    for lr, of_lr in ((0.1, (10, 5)), (0.2, (5, 5))):
        for seed, rounds in enumerate(of_lr):
            curve = [r / 100 for r in range(1, rounds + 1)]
            looked_at(Written({"lr": lr, "seed": seed, "eval_every": 2}, curve).at(Path(f"runs/{lr}{seed}")), 2)
    show("runs", "--against", "lr=0.2")
    with Path("runs/results.csv").open(newline="") as file:
        first, _ = csv.DictReader(file)
    assert (float(first["difference_mean"]), first["difference_seeds"], first["difference_round"]) == (0, "2", "4")


def test_seeds_without_a_round_in_which_all_were_looked_at_have_their_numbers(show: Showing) -> None:
    for seed, (every, rounds) in enumerate(((5, 9), (7, 20))):
        curve = [r / 100 for r in range(1, rounds + 1)]
        looked_at(Written({"seed": seed, "eval_every": every}, curve).at(Path(f"runs/{seed}")), every)
    out = show("runs")[1]
    assert "8.00 ± 1.41" in out and "as after round 9" in out and "eval_every is 5 and 7" in out


def test_what_the_seeds_of_a_line_differ_in_and_numbers_depend_on_is_told(show: Showing) -> None:
    for seed, every in enumerate((1, 2)):
        run = Written({"seed": seed, "eval_every": every}, [0.1, 0.2, 0.3, 0.4]).at(Path(f"runs/{seed}"))
        looked_at(run, every)
    note = "eval_every is 1 and 2, and means over rounds, bests, forgetting, rounds to a target and @ are of those"
    assert note in show("runs")[1]
    Written({"seed": 1}, [0.1, 0.2, 0.3, 0.4]).at(Path("others/1"))
    Written({"seed": 2, "patience": 3}, [0.1, 0.2, 0.3, 0.4]).at(Path("others/2"))
    out = show("others")[1]
    assert "patience is 3 and null, so that some runs may have ended sooner" in out and "eval_every is" not in out


def test_what_settings_differ_in_beside_their_columns_is_told(show: Showing) -> None:
    """Those that are looked at less often miss their worst rounds, and their best ones."""
    for method, every, more in (("FedAvg", 1, {}), ("FedNova", 2, {"patience": 4})):
        settings = {"method": method, "eval_every": every, **more}
        looked_at(Written(settings, [0.1, 0.4, 0.2, 0.3]).at(Path(f"runs/{method}")), every)
    for line in (("runs",), ("runs", "--against", "method=FedAvg")):
        out = show(*line)[1]
        assert "settings: eval_every is 1 and 2, and means" in out and "settings: patience is 4 and null, so" in out
    assert "% settings: eval_every is 1 and 2" in Path("runs/results.tex").read_text()
    for method in ("FedAvg", "FedNova"):
        for every in (1, 2):
            Written({"method": method, "eval_every": every}, [0.1, 0.4]).at(Path(f"shown/{method}{every}"))
    assert "eval_every is" not in show("shown")[1]


def test_settings_of_other_numbers_of_rounds_are_told(show: Showing) -> None:
    for lr, curve in ((0.1, [0.1, 0.4]), (0.2, [0.1, 0.3, 0.6])):
        Written({"lr": lr}, curve, forgetting=[0.1] * len(curve)).at(Path(f"runs/{lr}"))
    for metric, at in (
        ("final", "final@2"), ("last2 of forgetting", "last2@2 of forgetting"), ("forgetting", "final@2 of forgetting"),
    ):  # fmt: skip
        assert f"settings are of 2 and 3 rounds; --metric '{at}' shows all after" in show("runs", "--metric", metric)[1]
        code, out, err = show("runs", "--metric", at)
        assert (code, err) == (0, "") and "settings are of" not in out


def test_seeds_of_other_numbers_of_rounds_are_told_by_their_setting_alone(show: Showing) -> None:
    for seed, curve in ((0, [0.1, 0.4]), (1, [0.1, 0.3, 0.6])):
        Written({"seed": seed}, curve).at(Path(f"runs/{seed}"))
    out = show("runs")[1]
    assert "as after round 2, though seeds were asked for 2, 3 rounds" in out and "settings are of" not in out


def test_settings_of_different_seeds_are_told(show: Showing) -> None:
    """A mean over easy seeds is better than one over all."""
    note = "settings are of different seeds, the fewest of 2; --against compares those in common"
    for lr, seeds in ((0.1, (0, 1, 2)), (0.2, (1, 2))):
        for seed in seeds:
            Written({"lr": lr, "seed": seed}, [0.1, 0.4 + seed / 10]).at(Path(f"runs/{lr}{seed}"))
    assert note in show("runs")[1].splitlines()
    Written({"lr": 0.2, "seed": 0}, [0.1, 0.4]).at(Path("runs/0.20"))
    assert "different seeds" not in show("runs")[1]


def test_versions_of_a_users_method_are_settings_where_their_runs_of_a_seed_differ(show: Showing) -> None:
    for sweep, version, top in (("v1", "1" * 64, 0.5), ("v2", "2" * 64, 0.6)):
        for seed in (0, 1):
            run = Written({"seed": seed}, [top + seed / 100]).at(Path(f"runs/{sweep}/{seed}"))
            (run / "summary.json").write_text(json.dumps({"rounds": 1, "code": {"/mine/own.py": version}}))
    for seed in (0, 1):
        Written({"seed": seed, "lr": 0.5}, [0.4]).at(Path(f"runs/other/{seed}"))
    code, _, err = show("runs")
    with Path("runs/results.csv").open(newline="") as file:
        rows = {(row["lr"], row["version"]): (row["final_mean"], row["seeds"]) for row in csv.DictReader(file)}
    usual = next(lr for lr, _ in rows if lr != "0.5")
    assert (code, err, len(rows)) == (0, "", 3) and rows["0.5", ""] == ("40.0", "2")
    assert rows[usual, "own.py@11111111"] == ("50.5", "2") and rows[usual, "own.py@22222222"] == ("60.5", "2")
    code, out, _ = show("runs", "--against", "version=own.py@11111111")
    assert code == 0 and "+10.00 [+10.00, +10.00]" in out


def test_each_version_of_a_method_is_compared_with_another_one(show: Showing) -> None:
    for sweep, version, top in (("v1", "1" * 64, 0.5), ("v2", "2" * 64, 0.6)):
        for seed in (0, 1):
            run = Written({"seed": seed, "method": "FedProx"}, [top + seed / 100]).at(Path(f"runs/{sweep}/{seed}"))
            (run / "summary.json").write_text(json.dumps({"rounds": 1, "code": {"/mine/own.py": version}}))
            Written({"seed": seed}, [0.4 + seed / 100]).at(Path(f"runs/other/{sweep}{seed}"))
    code, out, _ = show("runs", "--against", "method=FedAvg")
    assert code == 0 and "nothing to compare it with" not in out
    assert "+10.00 [+10.00, +10.00]" in out and "+20.00 [+20.00, +20.00]" in out


def test_versions_whose_runs_are_alike_are_none(show: Showing) -> None:
    for version in ("1" * 64, "2" * 64):
        run = Written({"seed": 0}, [0.5]).at(Path(f"runs/{version[0]}"))
        (run / "summary.json").write_text(json.dumps({"rounds": 1, "code": {"/mine/own.py": version}}))
    code, out, _ = show("runs")
    assert code == 0 and "@11111111" not in out and "counted once" in out
