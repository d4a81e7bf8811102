"""launch.results --long: what all runs recorded, one below the other, with what sets them apart."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from showing import Showing
from written_runs import Written

from fl_ddp.results.run_folder import RunFolder

OF_WRITTEN = (
    "round", "traffic_up_bytes", "traffic_down_bytes", "time_padded_lanes", "accuracy", "time_wall", "time_training",
    "time_compiling", "time_other",
)  # fmt: skip
TESTS = "round,task_trained,task_tested,accuracy\n0,0,1,0.1\n1,1,1,0.5\n2,1,1,0.75\n"


def rows_in(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def picked(rows: Sequence[Mapping[str, str]], *columns: str) -> list[tuple[str, ...]]:
    return [tuple(row[column] for column in columns) for row in rows]


def with_column(run: Path, name: str, cells: Sequence[str]) -> None:
    """Put a column behind those of a written run."""
    file = run / "metrics.csv"
    lines = [f"{line},{cell}" for line, cell in zip(file.read_text().splitlines(), [name, *cells], strict=True)]
    file.write_text("\n".join(lines) + "\n")


def test_each_round_of_each_run_is_a_row_with_what_sets_the_run_apart(show: Showing) -> None:
    place = Path("sweeps/x")
    place.mkdir(parents=True)
    (place / ".lock").touch()  # as sweeps have one
    Written({"method": "FedProx", "method.mu": 0.2, "seed": 1}, [0.1, 0.30000000000000004]).at(place / "p1")
    Written({"method": "FedProx", "method.mu": 0.1, "seed": 0}, [0.2]).at(place / "p0")
    lost = Written({"method": "FedAvg", "seed": 0}, [0.4, 0.5], rounds=3, forgetting=[0.0, 0.25]).at(place / "deep/a")
    with_column(lost, '"accuracy/a, b"', ["", "nan"])
    code, out, err = show("sweeps/x", "--long")
    assert (code, err) == (0, "") and "sweeps/x: results.csv, results.md, results.tex, rounds.csv, curves.png" in out
    rows = rows_in(place / "rounds.csv")
    settings = ("run", "seed", "--method", "--method.mu")
    assert tuple(rows[0]) == (*settings, *OF_WRITTEN, "forgetting", "accuracy/a, b")
    assert picked(rows, *settings, "round", "accuracy", "forgetting", "accuracy/a, b") == [
        ("deep/a", "0", "FedAvg", "", "1", "0.4", "0.0", ""),
        ("deep/a", "0", "FedAvg", "", "2", "0.5", "0.25", "nan"),
        ("p0", "0", "FedProx", "0.1", "1", "0.2", "", ""),
        ("p1", "1", "FedProx", "0.2", "1", "0.1", "", ""),
        ("p1", "1", "FedProx", "0.2", "2", "0.30000000000000004", "", ""),
    ]
    assert not (place / "tasks.csv").exists() and not list(place.rglob("*.tmp"))
    (place / "rounds.csv").unlink()
    assert "rounds.csv" not in show("sweeps/x")[1] and not (place / "rounds.csv").exists()


def test_an_option_that_is_called_like_a_column_is_none_of_it(show: Showing) -> None:
    for loss in ("cross_entropy", "mse"):
        with_column(Written({"loss": loss}, [0.5]).at(Path("runs", loss)), "loss", ["2.5"])
    show("runs", "--long")
    rows = rows_in(Path("runs/rounds.csv"))
    assert picked(rows, "--loss", "loss") == [("cross_entropy", "2.5"), ("mse", "2.5")]


@pytest.mark.parametrize("name", ["run", "seed", "--lr"])
def test_a_column_that_would_be_taken_for_the_run_s_own_is_refused(show: Showing, name: str) -> None:
    for lr in (0.1, 0.2):
        with_column(Written({"lr": lr}, [0.5]).at(Path("runs", str(lr))), name, ["7"])
    file = Path("runs/0.1/metrics.csv")
    code, out, err = show("runs", "--long")
    assert (code, out) == (2, "")
    assert err == f"results: error: {file}: has a column {name}, which --long has of its own\n"
    assert not Path("runs/results.csv").exists() and show("runs")[0] == 0


def test_rounds_in_which_a_run_was_not_evaluated_are_rows_too(show: Showing) -> None:
    for seed, cells in enumerate((["0.25", "", "0.75"], ["", "0.5"])):
        run = Written({"seed": seed, "eval_every": 2 - seed}, [0.0] * len(cells)).at(Path("runs", str(seed)))
        file = run / "metrics.csv"
        file.write_text(file.read_text().replace("accuracy", "train_loss"))
        with_column(run, "accuracy", cells)
    show("runs", "--long")
    assert picked(rows_in(Path("runs/rounds.csv")), "seed", "round", "accuracy") == [
        ("0", "1", "0.25"), ("0", "2", ""), ("0", "3", "0.75"), ("1", "1", ""), ("1", "2", "0.5")
    ]  # fmt: skip


def test_a_row_that_is_being_written_is_left_out(show: Showing) -> None:
    going = Written({"lr": 0.1}, [0.1, 0.4], rounds=5).at(Path("runs/going"))
    Written({"lr": 0.2}, [], rounds=5).at(Path("runs/begun"))
    Written({"lr": 0.3}, [], rounds=5).at(Path("runs/new"))
    Path("runs/new/metrics.csv").write_text("round,accu")
    for name, line in (("metrics.csv", "3,1000000,20000"), ("tasks.csv", f"{TESTS}3,1")):
        with (going / name).open("a") as file:
            file.write(line)
    with RunFolder(going):
        assert show("runs", "--long")[0] == 0
    assert picked(rows_in(Path("runs/rounds.csv")), "run", "round") == [("going", "1"), ("going", "2")]
    assert picked(rows_in(Path("runs/tasks.csv")), "run", "round") == [("going", "0"), ("going", "1"), ("going", "2")]


def test_runs_without_a_row_leave_the_head_alone(show: Showing) -> None:
    run = Written({}, [], rounds=5).at(Path("runs/new"))
    assert show("runs", "--long")[0] == 0
    assert Path("runs/rounds.csv").read_text() == f"run,seed,{','.join(OF_WRITTEN)}\n"
    (run / "metrics.csv").write_text("")
    assert show("runs", "--long")[0] == 0 and Path("runs/rounds.csv").read_text() == "run,seed,round\n"


def test_accuracies_on_tasks_are_a_table_of_their_own_as_far_as_the_rounds_go(show: Showing) -> None:
    for lr in (0.1, 0.2, 0.3):
        run = Written({"lr": lr}, [0.5] if lr == 0.2 else [0.5, 0.75], rounds=2).at(Path("runs", str(lr)))
        if lr != 0.3:
            (run / "tasks.csv").write_text(TESTS)
    (Path("runs/0.2/clients.csv")).write_text("round,client,own_accuracy\n1,3,0.75\n2,3,0.5\n")
    head = "round,task_trained,client,task_tested,test_samples,accuracy\n"
    Path("runs/0.1/own_tasks.csv").write_text(f"{head}2,1,7,1,30,0.25\n3,1,7,1,30,0.5\n")
    out = show("runs", "--long")[1]
    assert (
        "runs: results.csv, results.md, results.tex, rounds.csv, clients.csv, tasks.csv, own_tasks.csv, curves.png"
        in out
    )
    clients = rows_in(Path("runs/clients.csv"))
    assert picked(clients, "--lr", "round", "client", "own_accuracy") == [("0.2", "1", "3", "0.75")]
    own = rows_in(Path("runs/own_tasks.csv"))
    assert picked(own, "--lr", "round", "client", "accuracy") == [("0.1", "2", "7", "0.25")]
    rows = rows_in(Path("runs/tasks.csv"))
    assert tuple(rows[0]) == ("run", "seed", "--lr", "round", "task_trained", "task_tested", "accuracy")
    assert picked(rows, "run", "seed", "--lr", "round", "accuracy") == [
        ("0.1", "0", "0.1", "0", "0.1"),
        ("0.1", "0", "0.1", "1", "0.5"),
        ("0.1", "0", "0.1", "2", "0.75"),
        ("0.2", "0", "0.2", "0", "0.1"),
        ("0.2", "0", "0.2", "1", "0.5"),
    ]
    assert len(rows_in(Path("runs/rounds.csv"))) == 5


def test_a_damaged_run_is_told_of_and_has_no_rows(show: Showing) -> None:
    for seed in (0, 1):
        Written({"seed": seed}, [0.5]).at(Path(f"runs/{seed}"))
    Path("runs/1/metrics.csv").write_text("round,accuracy\n1,\0\n")
    code, out, err = show("runs", "--long")
    assert (code, err) == (0, "") and "failed: 1: runs/1/metrics.csv: " in out
    assert picked(rows_in(Path("runs/rounds.csv")), "run") == [("0",)]


def test_of_runs_with_the_same_settings_and_seed_the_one_that_counts_has_rows(show: Showing) -> None:
    for name, curve in (("a", [0.1]), ("b", [0.1, 0.2]), ("c", [0.1, 0.2, 0.3])):
        Written({"seed": 0}, curve, rounds=3).at(Path("runs", name))
    out = show("runs", "--long")[1]
    assert "counted once, as their results are the same: runs/b, runs/a" in out
    assert picked(rows_in(Path("runs/rounds.csv")), "run", "round") == [("c", "1"), ("c", "2"), ("c", "3")]
    Written({"seed": 1}, [0.1, 0.2, 0.4]).at(Path("runs/d"))
    Written({"seed": 1}, [0.1, 0.2, 0.5]).at(Path("runs/e"))
    code, out, _ = show("runs", "--long")
    assert code == 1 and "left out: runs/d and runs/e" in out
    assert {run for (run,) in picked(rows_in(Path("runs/rounds.csv")), "run")} == {"c"}


def test_runs_of_several_folders_have_names_that_tell_them_apart(show: Showing) -> None:
    for sweep, lr in (("a", 0.1), ("b", 0.2)):
        Written({"lr": lr}, [0.5]).at(Path("sweeps", sweep, "seed=0"))
    assert show("sweeps/a", "sweeps/b/", "--long")[0] == 0
    assert not Path("sweeps/b/rounds.csv").exists()
    assert picked(rows_in(Path("sweeps/a/rounds.csv")), "run") == [("a/seed=0",), ("b/seed=0",)]
    assert show("sweeps/b/seed=0", "./sweeps/a/seed=0", "--long", "--out", "made")[0] == 0
    assert picked(rows_in(Path("made/rounds.csv")), "run") == [("a/seed=0",), ("b/seed=0",)]
    assert show("sweeps/a", "--long", "--out", "made")[0] == 0
    assert picked(rows_in(Path("made/rounds.csv")), "run", "round") == [("seed=0", "1")]


def test_nothing_is_written_over_what_a_run_recorded(show: Showing) -> None:
    run = Written({}, [0.5, 0.75]).at(Path("runs/mine"))
    (run / "tasks.csv").write_text(TESTS)
    for words in (["runs/mine", "--long"], ["runs", "--long", "--out", "runs/mine"]):
        code, out, err = show(*words)
        what = "runs/mine is the folder of a run, where clients.csv and tasks.csv are its own"
        what += "; accepted: --out FOLDER, another one"
        assert (code, out, err) == (2, "", f"results: error: --long: {what}\n")
    assert (run / "tasks.csv").read_text() == TESTS and not (run / "rounds.csv").exists()
    begun = Written({"seed": 1}, [], rounds=2).at(Path("runs/begun"))
    (begun / "metrics.csv").unlink()
    (begun / ".lock").touch()
    assert show("runs/begun", "--long")[0] == 2
    assert show("runs/mine", "--long", "--out", "made")[0] == 0
    assert picked(rows_in(Path("made/tasks.csv")), "run", "round") == [("mine", "0"), ("mine", "1"), ("mine", "2")]


def test_settings_that_are_called_by_folders_are_in_a_column_row(show: Showing) -> None:
    for row, lr in (("t-b", 0.1), ("t-a", 0.2)):
        Written({"lr": lr}, [0.5]).at(Path("runs", f"{row}-seed0"))
    assert show("runs", "--long", "--rows")[0] == 0
    rows = rows_in(Path("runs/rounds.csv"))
    assert tuple(rows[0])[:4] == ("run", "seed", "row", "round")
    assert picked(rows, "run", "row") == [("t-a-seed0", "a"), ("t-b-seed0", "b")]


def test_a_table_that_cannot_be_written_leaves_the_old_one(show: Showing) -> None:
    Written({}, [0.5]).at(Path("runs/mine"))
    Path("runs/rounds.csv").write_text("old\n")
    Path("runs/.rounds.csv.tmp").mkdir()
    code, _, err = show("runs", "--long")
    assert code == 1 and err.startswith("results: error: runs/rounds.csv: cannot be written (")
    assert Path("runs/rounds.csv").read_text() == "old\n"


def test_help_says_what_long_tables_are(show: Showing) -> None:
    assert "--long " in show("--help")[1] and "rounds.csv" in show("--help")[1]
