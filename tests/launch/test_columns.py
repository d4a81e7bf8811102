"""Which numbers launch.results has in its columns, and of whom."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from launching import SMALL, simulated
from showing import Showing
from written_runs import Written

from launch.compare.replicates import Replicates
from launch.numbers.reading import Reading


def with_classes(folder: Path, classes: Mapping[str, Sequence[float | None]]) -> None:
    """Put accuracies of classes into a written run; None where one is not tested."""
    head, *rows = (folder / "metrics.csv").read_text().splitlines()
    head += "".join(f",accuracy/{name}" for name in classes)
    columns = [["" if value is None else repr(value) for value in of] for of in classes.values()]
    lines = [",".join([row, *cells]) for row, *cells in zip(rows, *columns, strict=True)]
    (folder / "metrics.csv").write_text("\n".join([head, *lines]) + "\n")


def written(of: Mapping[str, Sequence[Sequence[float]]]) -> None:
    for method, curves in of.items():
        for seed, curve in enumerate(curves):
            Written({"method": method, "seed": seed}, curve).at(Path("runs", f"{method}{seed}"))


def table() -> list[dict[str, str]]:
    with Path("runs", "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_several_metrics_have_a_column_each_and_the_first_says_what_is_best(show: Showing) -> None:
    written({"FedAvg": [[0.5, 0.4]], "Scaffold": [[0.3, 0.45]]})
    given = ["--metric", "final", "--metric", "best", "--metric", "last2", "--metric", "best"]
    code, out, _ = show("runs", *given)
    assert code == 0 and "45.00 *" in out and "*: best by final" in out
    assert [(row["final_mean"], row["best_mean"], row["last2_mean"]) for row in table()] == [
        ("40.0", "50.0", "45.0"), ("45.0", "45.0", "37.5"),
    ]  # fmt: skip
    assert "50.00 *" in show("runs", *given[2:])[1]
    assert not [name for name in table()[0] if "forgetting" in name]


def test_a_mean_over_some_seeds_alone_says_of_how_many(show: Showing) -> None:
    written({"FedAvg": [[0.5, 0.4], [0.5, 0.6]], "Scaffold": [[0.3, 0.45], [0.3, 0.45]]})
    for name in ("FedAvg0", "Scaffold0", "Scaffold1"):
        with_classes(Path("runs", name), {"cat": [0.5, 0.25], "dog": [None, None]})
    with_classes(Path("runs", "FedAvg1"), {"cat": [None, None], "dog": [0.5, 0.5]})
    _, out, _ = show("runs", "--metric", "final of accuracy/cat")
    assert "25.00 (1 of 2)" in out and "25.00 ± 0.00" in out and "*" not in out
    assert "(1 of 3): the number of one seed, which the runs of the others do not have" in out
    assert [row["final_of_accuracy/cat_runs"] for row in table()] == ["1", "2"]
    assert "of 2)" not in show("runs")[1] and "(1 of 3)" not in show("runs")[1]


def test_all_that_are_best_are_marked_and_none_where_all_are_alike(show: Showing) -> None:
    written({"FedAvg": [[0.5]], "Scaffold": [[0.5]], "FedDyn": [[0.4]]})
    out = show("runs")[1]
    assert [" *" in line for line in out.splitlines()[4:7]] == [True, False, True]
    shutil.rmtree(Path("runs", "FedDyn0"))
    assert "*" not in show("runs")[1]


def test_a_paper_has_settings_and_metrics_in_latex(show: Showing) -> None:
    written({"FedAvg": [[0.5], [0.3]], "Scaffold": [[0.6], [0.6]], "FedDyn": [[0.6], [0.6]]})
    code, out, _ = show("runs", "--metric", "best", "--metric", "rounds_to 0.55", "--against", "method=FedAvg")
    assert code == 0 and "results.md, results.tex" in out
    notes, table = Path("runs", "results.tex").read_text().split("% \\usepackage{booktabs}\n")
    assert table.splitlines() == [
        r"\begin{tabular}{lrrrrrr}",
        r"\toprule",
        r"method & best \% & vs method=FedAvg & better in & rounds\_to 0.55 & vs that & better in \\",
        r"\midrule",
        r"FedAvg & 40.00 $\pm$ 14.14 & - & - & not reached by any of 2 & - & - \\",
        r"FedDyn & \textbf{60.00 $\pm$ 0.00} & +20.00 [$-$107.06, +147.06] & 2 of 2 & 1.0 $\pm$ 0.0 & - & - \\",
        r"Scaffold & \textbf{60.00 $\pm$ 0.00} & +20.00 [$-$107.06, +147.06] & 2 of 2 & 1.0 $\pm$ 0.0 & - & - \\",
        r"\bottomrule",
        r"\end{tabular}",
    ]
    told = notes.splitlines()
    assert told[0].startswith("% python -m launch.results runs --metric best ")
    assert told[1:3] == ["% mean ± standard deviation over seeds", "% bold: best by best"]
    assert all(line.startswith("% ") for line in told)


def grid(of: Mapping[tuple[str, float], Sequence[float]]) -> None:
    """Runs of methods at several alphas, a seed for each last accuracy; half of it is forgotten."""
    for (method, alpha), accuracies in of.items():
        for seed, accuracy in enumerate(accuracies):
            settings = {"method": method, "partition": "Dirichlet", "partition.alpha": alpha, "seed": seed}
            Written(settings, [accuracy], forgetting=[accuracy / 2]).at(Path("runs", f"{method}{alpha}{seed}"))


def test_an_options_values_may_be_columns_of_which_each_has_its_best(show: Showing) -> None:
    grid(
        {
            ("FedAvg", 0.5): [0.2], ("FedAvg", 5.0): [0.7, 0.8], ("FedAvg", 10.0): [0.9],
            ("Scaffold", 0.5): [0.3], ("Scaffold", 5.0): [0.6], ("FedDyn", 10.0): [0.9],
        }
    )  # fmt: skip
    code, out, _ = show("runs", "--across", "alpha", "--metric", "final", "--metric", "best")
    second = out.partition("final % by alpha; *: best of its column\n\n")[2].splitlines()
    assert code == 0 and second[0].split() == ["method", "alpha=0.5", "alpha=5", "alpha=10"]
    assert second[2:5] == [
        "FedAvg        20.00  75.00 ± 7.07 *     90.00",
        "FedDyn            -               -     90.00",
        "Scaffold    30.00 *           60.00         -",
    ]
    page = Path("runs", "results.md").read_text()
    assert "final % by alpha; *: best of its column:\n\n| method | alpha=0.5 | alpha=5 | alpha=10 |" in page
    assert "| Scaffold | 30.00 * | 60.00 | - |" in page
    paper = Path("runs", "results.tex").read_text()
    assert "% final % by alpha; bold: best of its column\n" in paper and "best by" not in paper
    assert r"FedAvg & 20.00 & \textbf{75.00 $\pm$ 7.07} & 90.00 \\" in paper
    assert r"Scaffold & \textbf{30.00} & 60.00 & - \\" in paper
    assert paper.count(r"\begin{tabular}{lrrr}") == paper.count("tabular}{") == 1


def test_notes_of_a_paper_are_of_its_table_and_stay_comments(show: Showing) -> None:
    grid({("FedAvg", 0.5): [0.2], ("FedAvg", 5.0): [0.4], ("Scaffold", 0.5): [0.3], ("Scaffold", 5.0): [0.3]})
    shutil.copytree("runs/FedAvg0.50", "runs/one\nmore")
    assert show("runs", "--across", "alpha", "--against", "method=FedAvg")[0] == 0
    notes = Path("runs", "results.tex").read_text().partition(r"\begin{tabular}")[0].splitlines()
    assert all(line.startswith("% ") for line in notes) and any("counted once" in line for line in notes)
    assert not [line for line in notes[1:] if "vs method" in line]
    assert "vs method=FedAvg" in Path("runs", "results.md").read_text()


def test_an_option_that_some_methods_lack_is_a_column_without_it(show: Showing) -> None:
    for method, options in (("FedAvg", {}), ("FedProx", {"method.mu": 0.5}), ("FedProx", {"method.mu": 2})):
        Written({"method": method, "seed": 0, **options}, [0.5]).at(Path("runs", f"{method}{options}"))
    out = show("runs", "--across", "mu")[1]
    head = next(line for line in out.splitlines() if "no mu" in line)
    assert head.split() == ["method", "mu=0.5", "mu=2", "no", "mu"] and "best of its column" not in out


def test_a_second_table_may_be_of_less_and_of_one_option_alone(show: Showing) -> None:
    grid({("FedAvg", 0.5): [0.2], ("FedAvg", 5.0): [0.4]})
    out = show("runs", "--across", "partition.alpha")[1]
    assert "final % by alpha\n\nalpha=0.5  alpha=5\n------------------\n    20.00    40.00\n" in out
    grid({("Scaffold", 0.5): [0.1], ("Scaffold", 5.0): [0.6]})
    out = show("runs", "--across", "alpha", "--metric", "final of forgetting")[1]
    assert "\nFedAvg        10.00  20.00 *\nScaffold     5.00 *    30.00\n" in out


def test_what_does_not_vary_has_no_columns(show: Showing) -> None:
    grid({("FedAvg", 0.5): [0.2], ("FedAvg", 5.0): [0.4]})
    for name in ("lr", "method"):
        told = f"results: error: --across: {name}: no option that varies among the runs; accepted: alpha\n"
        assert show("runs", "--across", name) == (2, "", told)


def test_twice_as_many_settings_are_twice_as_much_to_read(show: Showing, monkeypatch: pytest.MonkeyPatch) -> None:
    read, by_seed = [0], Replicates.by_seed

    def counted(*given: Any) -> Mapping[int, Reading]:
        read[0] += 1
        return by_seed(*given)

    monkeypatch.setattr(Replicates, "by_seed", counted)
    for alphas, most in (((0.5, 5.0, 10.0), None), ((0.1, 0.2, 0.3), 2)):
        before, read[0] = read[0], 0
        grid({(method, alpha): [alpha / 20] for method in ("FedAvg", "Scaffold") for alpha in alphas})
        assert show("runs", "--across", "alpha")[0] == 0
        assert read[0] > 0 and (most is None or read[0] <= most * before)


def test_a_class_that_no_run_has_is_refused_and_one_that_is_not_tested_yet_is_none(show: Showing) -> None:
    written({"FedAvg": [[0.5, 0.4]]})
    with_classes(Path("runs", "FedAvg0"), {"cat": [0.5, 0.25], "dog": [None, None]})
    for quantity in ("accuracy/cow", "forgetting/cow", "forgetting_degree/cow", "own_accuracy/3/cow"):
        code, _, err = show("runs", "--metric", "final", "--metric", f"final of {quantity}")
        what = f"results: error: --metric: final of {quantity}: no run has a class cow; accepted: cat, dog\n"
        assert (code, err) == (2, what)
    assert show("runs", "--metric", "final of accuracy/dog")[0] == 0
    code, _, err = show("runs", "--metric", "final of own_accuracy/20/cat")
    assert (code, err) == (
        2,
        "results: error: --metric: final of own_accuracy/20/cat: no run has a client 20; accepted: 0 to 19\n",
    )
    assert show("runs", "--metric", "final of own_accuracy/19/cat")[0] == 0
    assert show("runs", "--metric", "final of forgetting/cat")[0] == 0
    assert table()[0]["final_of_forgetting/cat_mean"] == "25.0"


def test_a_metric_of_runs_that_go_on_is_waited_for(show: Showing) -> None:
    written({"FedAvg": [[0.5, 0.4]], "FedProx": [[0.5, 0.4]]})
    asked = ("runs", "--metric", "final of personalised")
    code, _, err = show(*asked)
    assert (code, err.partition(";")[0]) == (2, "results: error: --metric: final of personalised: no run tells of it")
    Path("runs", "FedProx0", "summary.json").unlink()
    assert show(*asked)[0] == 0


def test_a_run_that_failed_tells_nothing_more(show: Showing) -> None:
    written({"FedAvg": [[0.5, 0.4]], "FedProx": [[0.5, 0.4]]})
    failed = Path("runs", "FedProx0")
    (failed / "summary.json").unlink()
    (failed / "failure.txt").write_text("the loss is nan")
    (failed / "metrics.csv").write_text("".join((failed / "metrics.csv").read_text().splitlines(keepends=True)[:2]))
    code, _, err = show("runs", "--metric", "final of personalised")
    assert (code, err.partition(";")[0]) == (2, "results: error: --metric: final of personalised: no run tells of it")


def test_why_all_runs_failed_is_told_whatever_metric_is_asked_for(show: Showing) -> None:
    written({"FedAvg": [[0.5, 0.4]]})
    (Path("runs", "FedAvg0") / "summary.json").unlink()
    (Path("runs", "FedAvg0") / "failure.txt").write_text("the loss is nan")
    code, out, _ = show("runs", "--metric", "final of measure/mine")
    assert code == 0 and "the loss is nan" in out


def test_a_round_that_a_point_which_has_not_begun_may_have_is_waited_for(show: Showing) -> None:
    Written({"rounds": 2}, [0.5, 0.4]).at(Path("sweep/rounds=2"))
    points = [{"folder": f"rounds={rounds}", "options": {"rounds": f"{rounds}"}} for rounds in (2, 5)]
    Path("sweep/sweep.json").write_text(json.dumps({"base": [], "varied": ["rounds"], "points": points}))
    assert show("sweep", "--metric", "final@4")[0] == 0


def test_a_round_that_no_run_is_asked_for_is_refused(show: Showing) -> None:
    written({"FedAvg": [[0.5, 0.4]], "FedProx": [[0.5, 0.4, 0.3]]})
    code, _, err = show("runs", "--metric", "final@4")
    assert (code, err) == (2, "results: error: --metric: final@4: no run has a round 4; accepted: up to @3\n")
    assert show("runs", "--metric", "final@3")[0] == 0


def test_what_no_method_reports_is_refused_and_waited_for(show: Showing) -> None:
    written({"FedAvg": [[0.5, 0.4]], "FedProx": [[0.5, 0.4]]})
    asked = ("runs", "--metric", "final of method/alpha")
    refused = "results: error: --metric: final of method/alpha: no run's method reports it; accepted: "
    code, _, err = show(*asked)
    assert (code, err) == (2, f"{refused}a metric that runs have themselves\n")
    file = Path("runs", "FedProx0", "metrics.csv")
    head, *rows = file.read_text().splitlines()
    file.write_text("\n".join([f"{head},method/pull", *(f"{row},0.5" for row in rows)]) + "\n")
    assert show(*asked)[2] == f"{refused}of method/pull\n"
    assert show("runs", "--metric", "final of method/pull")[0] == 0
    Path("runs", "FedProx0", "summary.json").unlink()
    assert show(*asked)[0] == 0


def test_runs_without_the_usual_metric_are_shown_with_dashes(show: Showing) -> None:
    """With --running_statistics local no global model is tested."""
    written({"FedAvg": [[0.5, 0.4]]})
    metrics = Path("runs", "FedAvg0", "metrics.csv")
    metrics.write_text(metrics.read_text().replace("accuracy", "personalised_accuracy", 1))
    code, out, err = show("runs")
    assert (code, err) == (0, "") and "-" in out
    assert show("runs", "--metric", "final of personalised")[0] == 0


def test_the_best_of_different_tests_is_refused(show: Showing) -> None:
    written({"FedAvg": [[0.5, 0.4]]})
    assert show("runs", "--metric", "best")[0] == 0
    tests = [(0, 0, 1, 0.1), (0, 0, 2, 0.1), (1, 1, 1, 0.5), (1, 1, 2, 0.0), (2, 2, 1, 0.3), (2, 2, 2, 0.5)]
    lines = ["round,task_trained,task_tested,accuracy", *(",".join(map(str, each)) for each in tests)]
    Path("runs", "FedAvg0", "tasks.csv").write_text("\n".join(lines) + "\n")
    code, _, err = show("runs", "--metric", "best")
    what = "best: the tasks so far are other tests in another task, and those of the first one are easiest; accepted: "
    assert code == 2 and err.startswith(f"results: error: --metric: {what}")
    for asked in ("last2", "running_mean", "ema0.9", "rounds_to 0.4"):
        for quantity in ("", " of average_accuracy"):
            code, _, err = show("runs", "--metric", f"{asked}{quantity}")
            assert code == 2 and err.startswith(
                f"results: error: --metric: {asked}{quantity}{what.removeprefix('best')}"
            )
        assert show("runs", "--metric", f"{asked} of task_accuracy/1")[0] == 0
    for asked in ("final@1", "best@1", "last1", "last1@2", "last2@1"):
        assert show("runs", "--metric", asked)[0] == 0, asked
    assert show("runs", "--metric", "best of task_accuracy/1")[0] == 0
    assert table()[0]["best_of_task_accuracy/1_mean"] == "50.0"


def test_the_last_tests_of_one_task_are_shown_and_of_runs_that_go_on(show: Showing) -> None:
    """As --eval_every 2 leaves two tasks of four rounds."""
    folder = Path("runs", "a")
    Written({"method": "FedAvg", "seed": 0}, [0.5] * 8, rounds=8).at(folder)
    head, *rows = (folder / "metrics.csv").read_text().splitlines()
    place = head.split(",").index("accuracy")
    for row in rows[::2]:
        cells = row.split(",")
        rows[rows.index(row)] = ",".join([*cells[:place], "", *cells[place + 1 :]])
    (folder / "metrics.csv").write_text("\n".join([head, *rows]) + "\n")
    tests = ["2,1,1,0.5", "4,1,1,0.5", "4,1,2,0.1", "6,2,1,0.3", "6,2,2,0.2", "8,2,1,0.3", "8,2,2,0.3"]
    (folder / "tasks.csv").write_text("\n".join(["round,task_trained,task_tested,accuracy", *tests]) + "\n")
    for asked, code in {
        "last4": 0,
        "last4@4": 0,
        "last1@6": 0,
        "last5": 2,
        "last4@7": 2,
        "best@5": 0,
        "best@6": 2,
    }.items():
        assert show("runs", "--metric", asked)[0] == code, asked
    (folder / "summary.json").unlink()
    (folder / "metrics.csv").write_text("\n".join([head, *rows[:6]]) + "\n")
    assert show("runs", "--metric", "last4")[0] == 0, "what it will be of"


def test_a_setting_whose_runs_failed_is_of_no_rounds(show: Showing) -> None:
    written({"FedAvg": [[0.5, 0.4]]})
    folder = Path("runs", "FedProx0")
    Written({"method": "FedProx", "seed": 0}, [0.5, 0.4]).at(folder)
    (folder / "summary.json").unlink()
    head, row, _ = (folder / "metrics.csv").read_text().splitlines()
    (folder / "metrics.csv").write_text(f"{head}\n0{row[1:]}\n")
    (folder / "failure.txt").write_text("loss is not finite\n")
    _, out, _ = show("runs")
    assert "FedProx" in out and "0 of 2" in out and "@0" not in out and "in brackets" not in out


def test_what_a_class_has_lost_is_known_at_the_end_alone_where_tasks_test_it_anew(show: Showing) -> None:
    tasks = {"stream": "ClassGroups", "stream.size": 5, "stream.tasks": 2, "stream.task_rounds": 2, "rounds": 4}
    run = simulated({**SMALL, **tasks}, Path.cwd())
    ends = json.loads((run / "summary.json").read_text())["class_forgetting"]["3"]
    assert show(str(run), "--metric", "final of forgetting/3")[0] == 0
    with (run / "results.csv").open(newline="") as file:
        assert float(next(csv.DictReader(file))["final_of_forgetting/3_mean"]) == pytest.approx(100 * ends)
    for asked in ("final@2 of forgetting/3", "last10 of forgetting/3", "rounds_to 0.5 of forgetting/3"):
        code, _, err = show(str(run), "--metric", asked)
        what = f"{asked}: with tasks, or --init, what a class has lost is known at a run's end alone"
        assert (code, err) == (2, f"results: error: --metric: {what}; accepted: final of forgetting/3\n")


def test_runs_that_have_not_begun_are_not_taken_for_runs_with_tasks(show: Showing) -> None:
    written({"FedAvg": [[0.5, 0.4]]})
    file = Path("runs", "FedAvg0", "metrics.csv")
    file.write_text(file.read_text().splitlines()[0] + "\n")
    Path("runs", "FedAvg0", "summary.json").unlink()
    assert show("runs")[0] == 0
    assert "final_mean" in table()[0] and not [name for name in table()[0] if "average" in name]


def test_a_target_that_one_of_two_seeds_misses_is_told_by_both_and_reached_by_one(show: Showing) -> None:
    written({"FedAvg": [[0.4, 0.6], [0.1, 0.2]]})
    show("runs", "--metric", "rounds_to 0.5")
    assert [table()[0][f"rounds_to_0.5_{part}"] for part in ("runs", "reached")] == ["2", "1"]


def test_a_target_may_be_told_by_what_it_cost(show: Showing) -> None:
    """Each round sends 3 MB and takes 2 seconds."""
    written({"FedAvg": [[0.1, 0.2, 0.4, 0.5], [0.1, 0.4, 0.5, 0.5]], "FedProx": [[0.1, 0.2, 0.3, 0.3]]})
    asked = ("rounds_to 0.35", "traffic_to 0.35", "time_to 0.35 of running_mean", "traffic_to 0.9")
    code, out, err = show("runs", *(word for each in asked for word in ("--metric", each)))
    assert (code, err) == (0, "") and "traffic_to 0.35 MB" in out and "time_to 0.35 of running_mean s" in out
    first, second = table()
    assert (first["rounds_to_0.35_mean"], first["traffic_to_0.35_mean"]) == ("2.5", "7.5")
    assert ">= 8.0 (1 of 2 reach it)" in out and "not reached by any of 2" in out
    assert second["traffic_to_0.35_reached"] == "0" and first["traffic_to_0.9_reached"] == "0"
    assert first["time_to_0.35_of_running_mean_mean"] == "8.0"
    code, out, _ = show("runs", "--metric", "traffic_to 0.35", "--against", "method=FedProx")
    assert code == 0 and "a target that was missed" in out


def test_traffic_up_and_down_have_columns_of_their_own(show: Showing) -> None:
    written({"FedAvg": [[0.4, 0.6]]})
    head, row = (line.split("  ") for line in show("runs")[1].splitlines()[2::2][:2])
    assert [table()[0][f"traffic_{way}_bytes_mean"] for way in ("up", "down")] == ["2000000.0", "4000000.0"]
    assert "MB up" in head and [word.strip() for word in row if word.strip()][-3:-1] == ["2.0", "4.0"]


def test_a_setting_that_is_not_finished_is_not_best(show: Showing) -> None:
    written({"FedAvg": [[0.4, 0.6]], "Scaffold": [[0.4, 0.5]]})
    Written({"method": "FedDyn"}, [0.9], rounds=2).at(Path("runs/going"))
    out = show("runs")[1]
    assert [line.split()[0] for line in out.splitlines() if " *" in line] == ["FedAvg"] and "(90.00)" in out
