"""launch.results: runs put together into a table and plots."""

from __future__ import annotations

import csv
import json
import shutil
import statistics
from itertools import product
from pathlib import Path

import pytest
import yaml
from launching import SMALL, options, resumed, simulated
from PIL import Image
from showing import Showing
from written_runs import Written

from fl_ddp.errors import RunError
from fl_ddp.results.run_folder import RunFolder
from launch.run.failure import Failure, failure_beside
from launch.run.stored import read_run
from launch.sweep import main as sweep


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_a_real_sweep_becomes_a_table_and_plots(show: Showing, tmp_path: Path) -> None:
    base = {key: value for key, value in SMALL.items() if key != "name"} | {"targets": [0.2]}
    for lr, seed in product((0.05, 0.1), (0, 1)):
        simulated({**base, "lr": lr, "seed": seed, "name": f"lr={lr},seed={seed}"}, Path("sweeps/real"))
    points = ["--grid", "lr=0.05,0.1,1e6", "--grid", "seed=0..1"]
    assert sweep([*options(base), "--name", "real", *points]) == 1
    code, out, err = show("sweeps/real")
    assert (code, err) == (0, "")
    folder = Path("sweeps/real")
    rows = table(folder)
    assert [row["lr"] for row in rows] == ["0.05", "0.1", "1000000"]
    for row in rows[:2]:
        runs = [read_run(folder / f"lr={row['lr']},seed={seed}") for seed in (0, 1)]
        summaries = [run.summary for run in runs if run]
        final = [100 * float(str(summary["accuracy"])) for summary in summaries]
        assert float(row["final_mean"]) == pytest.approx(statistics.fmean(final))
        assert float(row["final_spread"]) == pytest.approx(statistics.stdev(final))
        best = [100 * float(str(summary["best_accuracy"])) for summary in summaries]
        assert float(row["best_mean"]) == pytest.approx(statistics.fmean(best))
        reached = [summary["rounds_to_target"]["accuracy"]["0.2"] for summary in summaries]  # type: ignore[index]
        assert float(row["rounds_to_0.2_mean"]) == statistics.fmean(4 if r is None else r for r in reached)
        assert int(row["rounds_to_0.2_reached"]) == sum(r is not None for r in reached)
        assert float(row["traffic_up_bytes_mean"]) == summaries[0]["traffic_up_bytes"]
        assert float(row["seconds_mean"]) > 0
        assert (row["seeds"], row["finished"], row["failed"], row["rounds_least"]) == ("2", "2", "0", "3")
    assert (rows[2]["failed"], rows[2]["final_mean"]) == ("2", "")
    assert out.count("a smaller --lr usually helps") == 2
    page = (folder / "results.md").read_text()
    assert "`python -m launch.results sweeps/real`" in page and page.count("a smaller --lr usually helps") == 2
    for stem in ("curves", "metric_over_lr"):
        assert f"![{stem}]({stem}.png)" in page
        assert (folder / f"{stem}.svg").read_text().startswith("<?xml")
        with Image.open(folder / f"{stem}.png") as image:
            assert image.width > 800
    assert show(".", "--out", "sweeps/real")[1].splitlines()[2:6] == out.splitlines()[2:6]


def test_running_stopped_and_waiting_runs_are_shown_with_what_they_have(show: Showing) -> None:
    place = Path("sweeps/mine")
    going = Written({"lr": 0.1, "seed": 0}, [0.1, 0.4], rounds=5).at(place / "a")
    Written({"lr": 0.1, "seed": 1}, [0.2, 0.6, 0.7], rounds=5).at(place / "b")
    Written({"lr": 0.2, "seed": 0}, [0.1, 0.2, 0.3, 0.4, 0.5]).at(place / "c")
    Written({"lr": 0.2, "seed": 1}, [0.9], rounds=5).at(place / "d")
    point = [{"folder": name, "options": {}} for name in "abcde"]
    (place / "sweep.json").write_text(json.dumps({"base": [], "varied": [], "points": point}))
    with RunFolder(going):
        code, out, err = show("sweeps/mine", "--metric", "best")
    assert (code, err) == (0, "")
    first, second = table(place)
    assert [first[key] for key in ("finished", "running", "stopped", "rounds_least")] == ["0", "1", "1", "2"]
    assert float(first["best_mean"]) == pytest.approx(50) and "(50.00 ± 14.14)" in out  # both after round 2
    assert [each["best_runs"] for each in (first, second)] == ["2", "1"]
    assert [second[key] for key in ("finished", "stopped", "best_mean")] == ["1", "1", "50.0"]
    assert "not begun: 1 runs" in out and "in brackets: the run of no seed is finished" in out and "2..3 of 5" in out
    assert [row["seconds_mean"] for row in (first, second)] == ["4.0", "10.0"]


def test_of_regressions_the_error_is_shown(show: Showing) -> None:
    for lr, curve in ((0.1, [9.0, 8.0]), (0.2, [7.0, 6.0])):
        file = Written({"lr": lr, "loss": "mse"}, curve).at(Path("runs", str(lr))) / "metrics.csv"
        file.write_text(file.read_text().replace("accuracy", "mae"))
    assert "*: best by final of mae" in show("runs")[1]
    assert [row["final_of_mae_mean"] for row in table(Path("runs"))] == ["8.0", "6.0"]
    Written({"lr": 0.2}, [0.5, 0.75]).at(Path("runs/other"))
    show("runs")
    assert sorted(row["final_mean"] for row in table(Path("runs"))) == ["", "", "75.0"]


def test_rounds_to_a_target_are_averaged_once_every_seed_has_told(show: Showing) -> None:
    curves = {"a": [0.1, 0.6, 0.7], "b": [0.1], "c": [0.1, 0.2, 0.3]}
    for seed, (name, curve) in enumerate(curves.items()):
        Written({"seed": seed}, curve, rounds=5).at(Path("runs", name))
    _, out, _ = show("runs", "--metric", "rounds_to 0.5")
    assert "(reached by 1 of 3)" in out
    (row,) = table(Path("runs"))
    assert (row["rounds_to_0.5_mean"], row["rounds_to_0.5_runs"], row["best_mean"], row["best_runs"]) == (
        ("", "0", "10.0", "3")
    )
    Written({"seed": 0}, [0.1, 0.6]).at(Path("all/a"))
    Written({"seed": 1}, [0.1, 0.2, 0.3, 0.5], rounds=5).at(Path("all/b"))
    assert "reached by" not in show("all", "--metric", "rounds_to 0.5")[1]
    (row,) = table(Path("all"))
    assert (row["rounds_to_0.5_mean"], row["rounds_to_0.5_runs"]) == ("2.0", "1")  # the finished run's alone


@pytest.mark.parametrize(
    ("metric", "best"),
    [
        ("final", "0.2"),
        ("final of forgetting", "0.1"),
        ("running_mean of forgetting", "0.1"),
        ("rounds_to 0.5", "0.2"),
        ("rounds_to 0.3 of loss", "0.1"),
    ],
)
def test_the_best_setting_has_a_star(show: Showing, metric: str, best: str) -> None:
    Written({"lr": 0.1}, [0.1, 0.4], forgetting=[0.0, 0.1]).at(Path("runs/a"))
    Written({"lr": 0.2}, [0.2, 0.6], forgetting=[0.2, 0.3]).at(Path("runs/b"))
    for folder, losses in (("a", ("loss", 0.3, 0.2)), ("b", ("loss", 0.5, 0.3))):
        file = Path("runs", folder, "metrics.csv")
        rows = zip(file.read_text().splitlines(), losses, strict=True)
        file.write_text("".join(f"{row},{cell}\n" for row, cell in rows))
    out = show("runs", "--metric", metric)[1]
    assert [line.split()[0] for line in out.splitlines() if " *" in line] == [best]
    assert f"*: best by {metric}" in out


def test_runs_with_tasks_are_compared_by_what_they_know_of_all_tasks(show: Showing) -> None:
    """The best accuracy would be that on the first task alone, and class forgetting begins anew with each task."""
    for name, kept in (("a", 0.2), ("b", 0.6)):
        run = Written({"lr": 0.1 if name == "a" else 0.2}, [0.9, 0.5], forgetting=[0.0, 0.0]).at(Path("runs", name))
        rows = "1,1,1,0.9\n1,1,2,0.1\n" + f"2,2,1,{kept}\n2,2,2,0.8\n"
        (run / "tasks.csv").write_text("round,task_trained,task_tested,accuracy\n0,0,1,0.1\n0,0,2,0.1\n" + rows)
    out = show("runs")[1]
    head = "final of average_accuracy %  final of average_forgetting %  final of backward_transfer %"
    assert " ".join(head.split()) in " ".join(out.split()) and "best %" not in out and "of forgetting" not in out
    lines = {line.split()[0]: line.split() for line in out.splitlines() if line.startswith("0.")}
    assert [word for word in lines["0.1"] if "." in word][1:4] == ["50.00", "70.00", "-70.00"]
    assert "*" in lines["0.2"] and "*" not in lines["0.1"]
    Written({"lr": 0.3, "targets": [0.8]}, [0.9, 0.5], forgetting=[0.0, 0.1]).at(Path("runs/c"))
    mixed = show("runs")[1]  # one has no tasks, the others still have
    assert "final of forgetting %" in mixed and "best %" not in mixed and "rounds_to" not in mixed


def test_no_setting_is_best_where_none_reaches_the_target(show: Showing) -> None:
    for lr in (0.1, 0.2):
        Written({"lr": lr}, [0.1, 0.4]).at(Path(f"runs/{lr}"))
    assert "*" not in show("runs", "--metric", "rounds_to 0.5")[1]


def test_a_setting_that_misses_the_target_is_not_best_since_it_was_given_few_rounds(show: Showing) -> None:
    for seed in (0, 1):
        Written({"lr": 0.1, "seed": seed}, [0.1] * 3 + [0.4]).at(Path(f"runs/a{seed}"))
        Written({"lr": 0.2, "seed": seed}, [0.1, 0.5 if seed else 0.2]).at(Path(f"runs/b{seed}"))
    out = show("runs", "--metric", "rounds_to 0.4")[1]
    assert ">= 2.5 (1 of 2 reach it)" in out and "4.0 ± 0.0 *" in out


def test_the_least_forgetting_is_that_of_the_first_round_and_none_to_compare(show: Showing) -> None:
    Written({}, [0.1, 0.4, 0.3], forgetting=[0.0, 0.05, 0.25]).at(Path("runs/a"))
    assert "in its first round every run" in show("runs", "--metric", "best of forgetting")[2]
    assert show("runs", "--metric", "running_mean of forgetting")[0] == 0
    (row,) = table(Path("runs"))
    assert (row["running_mean_of_forgetting_mean"], row["final_of_forgetting_mean"]) == ("10.0", "25.0")


def test_a_sweep_whose_points_all_failed_before_they_began_says_so(show: Showing) -> None:
    Path("sweeps/mine").mkdir(parents=True)
    points = [{"folder": name, "options": {}, "failed": "it broke"} for name in "ab"]
    Path("sweeps/mine/sweep.json").write_text(json.dumps({"base": [], "varied": [], "points": points}))
    code, out, err = show("sweeps/mine")
    assert (code, err) == (0, "") and out.count("it broke") == 2
    page = Path("sweeps/mine/results.md").read_text()
    for text in (out, page):
        assert "no run has begun" in text and "seeds" not in text and "±" not in text


def test_plots_over_options_that_no_longer_vary_are_removed(show: Showing) -> None:
    Written({"lr": 0.1}, [0.1, 0.4]).at(Path("runs/a"))
    other = Written({"lr": 0.2}, [0.2, 0.6]).at(Path("runs/b"))
    show("runs")
    assert {path.name for path in Path("runs").glob("metric_over_*")} == {"metric_over_lr.png", "metric_over_lr.svg"}
    shutil.rmtree(other)
    show("runs")
    assert not list(Path("runs").glob("metric_over_*")) and Path("runs/curves.png").exists()


def test_a_run_that_failed_for_a_launcher_is_failed_without_a_sweep(show: Showing) -> None:
    run = Written({"seed": 0}, [0.1], rounds=3).at(Path("runs/a"))
    Path("runs/a.log").write_text("fl_ddp: error: what is printed decides nothing\n")
    assert "failed" not in show("runs")[1]
    Failure(1, "it broke").write(failure_beside(run))
    assert "failed: a: it broke" in show("runs")[1]
    Failure(3, "another rank is gone").write(failure_beside(run))
    assert "failed" not in show("runs")[1]
    with RunFolder(run):
        assert table(Path("runs"))[0]["stopped"] == "1" and "running" in show("runs")[1]
    assert show("runs", "--out", "made/anew")[0] == 0 and table(Path("made/anew"))
    code, _, err = show("runs", "--out", "runs/a.log/x")
    assert (code, err) == (1, "results: error: runs/a.log/x: cannot be written (Not a directory)\n")


@pytest.mark.slow
def test_a_crashed_run_is_failed_with_its_message_until_it_goes_on(show: Showing) -> None:
    settings = {**SMALL, "lr_decay": 1e15, "checkpoint_every": 1}
    with pytest.raises(RunError, match="round 2, client"):
        simulated(settings, Path("runs"))
    assert "failed: run: round 2, client" in show("runs")[1]
    with pytest.raises(RunError, match="round 2, client"):
        resumed(Path("runs/run"))
    Path("runs/run/failure.txt").unlink()
    assert "failed" not in show("runs")[1] and "stopped" in show("runs")[1]


def test_a_seed_that_ran_twice_counts_once(show: Showing) -> None:
    for name, seed, curve in (("a", 0, [0.1, 0.4]), ("b", 0, [0.1, 0.4]), ("c", 1, [0.2, 0.6])):
        Written({"seed": seed}, curve).at(Path("runs", name))
    Written({"seed": 1}, [0.2], rounds=2).at(Path("runs/begun"))
    code, out, err = show("runs")
    (row,) = table(Path("runs"))
    assert (code, err, row["seeds"], row["finished"], row["final_runs"]) == (0, "", "2", "2", "2")
    assert float(row["final_spread"]) == pytest.approx(statistics.stdev([40, 60]))
    assert "counted once, as their results are the same: runs/b, runs/begun" in out

    shutil.rmtree("runs/c")
    shutil.rmtree("runs/begun")
    assert "±" not in show("runs")[1].splitlines()[4]
    assert table(Path("runs"))[0]["final_spread"] == ""


@pytest.mark.parametrize("edit", ["curve", "last bit of the curve", "parameters"])
def test_runs_that_should_be_the_same_and_are_not_are_an_error_and_no_number(show: Showing, edit: str) -> None:
    Written({"seed": 0}, [0.1, 0.4]).at(Path("runs/a"))
    last = {"curve": 0.5, "last bit of the curve": 0.4000000001, "parameters": 0.4}[edit]
    other = Written({"seed": 0}, [0.1, last]).at(Path("runs/b"))
    if edit == "parameters":
        (other / "summary.json").write_text(
            json.dumps({"rounds": 2, "parameters_sha256": "b", "numerics": {"cpu": "B"}})
        )
    Written({"seed": 1}, [0.2, 0.6]).at(Path("runs/c"))
    code, out, err = show("runs")
    of_model = "the final parameters differ (cpu None and B)"
    what = of_model if edit == "parameters" else f"accuracy of round 2 is 0.4 and {last}"
    assert code == 1 and err.startswith(f"results: error: runs/a and runs/b: {what}, though settings and seed are")
    assert table(Path("runs"))[0]["seeds"] == "1" and f"left out: runs/a and runs/b: {what}" in out
    shutil.rmtree("runs/c")
    code, out, err = show("runs")
    assert code == 1 and "no run has begun" not in out and "left out: runs/a and runs/b" in out


def test_runs_that_ended_by_their_rule_count_with_their_own_ends(show: Showing) -> None:
    rule = {"stop_at": "accuracy=0.8"}
    for seed, curve in enumerate(([0.1, 0.5, 0.8], [0.1, 0.2, 0.3, 0.4, 0.82], [0.9])):
        run = Written({**rule, "seed": seed}, curve, rounds=9).at(Path(f"runs/{seed}"))
        (run / "summary.json").write_text(json.dumps({"rounds": len(curve), "stopped": "accuracy is 0.8"}))
    out = show("runs")[1]
    (row,) = table(Path("runs"))
    assert (row["finished"], row["final_runs"], row["traffic_up_bytes_mean"]) == ("3", "3", "3000000.0")
    assert float(row["final_mean"]) == pytest.approx((80 + 82 + 90) / 3) and "as after round" not in out
    Written({**rule, "seed": 3}, [0.2, 0.4]).at(Path("runs/3"))  # asked for fewer rounds, and all others cut to those
    out = show("runs")[1]
    assert float(table(Path("runs"))[0]["final_mean"]) == pytest.approx((50 + 20 + 90 + 40) / 4)
    assert "finished runs: as after round 2, though seeds were asked for 2, 9 rounds" in out


def test_cells_without_a_number_are_passed_over_and_infinite_ones_have_no_spread(show: Showing) -> None:
    later, never = "final of accuracy/later", "final of accuracy/never"
    for seed in (0, 1):
        file = Written({"seed": seed}, [0.5, 0.75]).at(Path(f"runs/{seed}")) / "metrics.csv"
        head, first, second = file.read_text().splitlines()
        added = (",accuracy/later,accuracy/never,loss", ",nan,nan,1000", f",0.{seed + 1},nan,{2000 - 1999 * seed}")
        rows = [row + cells for row, cells in zip((head, first, second), added, strict=True)]
        file.write_text("\n".join(rows) + "\n")
    for metric, shown in (
        (later, "15.00 ± 7.07"),
        ("best of accuracy/later", "15.00 ± 7.07"),
        ("running_mean of accuracy/later", "15.00 ± 7.07"),
        (never, "-"),
        ("final of perplexity", "inf"),
    ):
        code, out, err = show("runs", "--metric", metric)
        assert (code, err) == (0, "") and shown in (row := out.splitlines()[4]), metric
        assert f"{shown} ±" not in row
    assert Path("runs/curves.png").is_file() and not Path("runs/curves_over_time.png").exists()
    assert show("runs", "--over", "time")[0] == 0 and Path("runs/curves_over_time.png").is_file()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "FOLDER: is missing; accepted: that of a sweep"),
        (["nowhere"], "nowhere: is no folder; accepted: that of a sweep"),
        (["empty"], "empty: holds no runs"),
        (["empty", "--metric", "finale"], "--metric: 'finale' is no metric"),
        (["empty", "--metric", "final / fedavg"], "there are no rows to divide by; accepted: final"),
        (["empty", "--metrics", "final"], "--metrics: unknown option; did you mean --metric?"),
        (["empty", "--over", "bytes"], "--over: bytes "),
        (["empty", "--lr", "1"], "--lr=1: unknown option"),
        (["broken"], "config.yaml: is not the configuration of a run"),
        (["sweep"], "sweep/sweep.json: is not what a sweep writes"),
    ],
)
def test_bad_input_is_one_line(show: Showing, words: list[str], message: str) -> None:
    for name, file in (("empty", None), ("broken", "config.yaml"), ("sweep", "sweep.json")):
        Path(name).mkdir()
        if file:
            Path(name, file).write_text("- 1\n")
    code, out, err = show(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("results: error: ") and message in err


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"seed": None}, "is not the configuration of a run (seed is null)"),
        ({"seed": "abc"}, "is not the configuration of a run (seed is abc)"),
        ({"rounds": 0.5}, "is not the configuration of a run (rounds is 0.5)"),
        ({"method": None}, "is not the configuration of a run (method is null)"),
        ({"model": {"init_args": {"hidden": 3}}}, "is not the configuration of a run (model is null)"),
    ],
)
def test_a_configuration_that_is_no_run_s_is_one_line(show: Showing, edit: dict[str, object], message: str) -> None:
    file = Written({}, [0.5]).at(Path("runs/a")) / "config.yaml"
    file.write_text(yaml.safe_dump({**yaml.safe_load(file.read_text()), **edit}))
    assert show("runs") == (2, "", f"results: error: runs/a/config.yaml: {message}\n")


def test_a_run_of_before_there_were_streams_is_read(show: Showing) -> None:
    old, new = (Written({"lr": lr}, [0.5]).at(Path(f"runs/{lr}")) / "config.yaml" for lr in (0.1, 0.2))
    config = yaml.safe_load(new.read_text())
    old.write_text(yaml.safe_dump({key: value for key, value in {**config, "lr": 0.1}.items() if key != "stream"}))
    code, out, err = show("runs")
    assert (code, err) == (0, "") and "stream" not in out and "0.1" in out and "0.2" in out


def test_a_config_yaml_that_no_run_left_is_passed_over(show: Showing) -> None:
    Written({"lr": 0.1}, [0.5]).at(Path("work/runs/a"))
    Path("work/configs").mkdir()
    Path("work/configs/config.yaml").write_text("rounds: 3\n")
    code, _, err = show("work")
    assert (code, err) == (0, "") and [row["seeds"] for row in table(Path("work"))] == ["1"]
    code, _, err = show("work/configs")
    assert code == 2 and "work/configs/config.yaml: is not the configuration of a run (seed is null)" in err


def test_neither_a_damaged_run_nor_a_configuration_beside_runs_hides_them(show: Showing) -> None:
    for seed in (0, 1):
        Written({"seed": seed}, [0.5]).at(Path(f"sweep/{seed}"))
    Path("sweep/config.yaml").write_text(Path("sweep/0/config.yaml").read_text().replace("\nseed: 0", "\nseed: 2"))
    Path("sweep/sweep.json").write_text(json.dumps({"base": [], "varied": [], "points": []}))
    Path("sweep/.lock").touch()
    Path("sweep/1/metrics.csv").write_text("round,accuracy\n1,\0\n")
    code, out, err = show("sweep")
    assert (code, err) == (0, "") and [(row["seeds"], row["finished"]) for row in table(Path("sweep"))] == [("1", "1")]
    assert "failed: 1: sweep/1/metrics.csv: " in out


def test_what_lies_beside_runs_is_none(show: Showing) -> None:
    for seed in (0, 1):
        run = Written({"seed": seed}, [0.5]).at(Path(f"runs/b-{seed}"))
        for end in (".log", ".failure.json", ".job.json"):
            run.with_name(f"{run.name}{end}").touch()
        run.with_name(f"{run.name}.slurm").mkdir()
    Failure(3, "another rank is gone").write(Path("runs/b-0.failure.json"))
    Path("runs/b-1.failure.json").unlink()
    code, _, err = show(*map(str, sorted(Path("runs").glob("b-*"))), "--out", "made")
    assert (code, err) == (0, "") and table(Path("made"))[0]["finished"] == "2"
    Written({"seed": 2}, [0.5]).at(Path("runs/mine.slurm"))
    assert show("runs/b-0", "runs/mine.slurm", "--out", "made")[0] == 0
    assert table(Path("made"))[0]["finished"] == "2"


def test_every_folder_must_hold_runs(show: Showing) -> None:
    Path("sweeps/mine").mkdir(parents=True)
    points = [{"folder": "a", "options": {}, "failed": "it broke"}]
    Path("sweeps/mine/sweep.json").write_text(json.dumps({"base": [], "varied": [], "points": points}))
    Path("empty").mkdir()
    for folders in (("sweeps/mine", "empty"), ("empty", "sweeps/mine")):
        code, out, err = show(*folders)
        assert (code, out) == (2, "") and err.startswith("results: error: empty: holds no runs")


def test_numbers_of_a_real_run_are_those_it_reports(tmp_path: Path) -> None:
    run = read_run(simulated(SMALL, tmp_path))
    assert run is not None
    reported = run.summary["seconds"]
    assert isinstance(reported, dict)
    assert 0 < run.seconds <= sum(reported.values()) - reported["compiling"]
