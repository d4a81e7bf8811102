"""launch.results: runs put together into a table and plots."""

from __future__ import annotations

import csv
import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import SMALL, options, simulated
from PIL import Image

from fl_ddp.command_line import parse
from fl_ddp.config_file import to_yaml
from fl_ddp.run_folder import RunFolder
from launch.curve_figure import curve_figure
from launch.figure_style import paper_style
from launch.found_runs import find_runs
from launch.groups import Grouping, grouped, in_order
from launch.metric import parse_metric
from launch.metric_figure import metric_figure
from launch.results import main
from launch.runs import read_run
from launch.spread import mean, spread, with_spread
from launch.sweep import main as sweep

Showing = Callable[..., tuple[int, str, str]]


@pytest.fixture
def show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Showing:
    """The command, in a working directory of its own: exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        capfd.readouterr()
        code = main(words)
        return (code, *capfd.readouterr())

    return call


@dataclass(frozen=True)
class Written:
    """What a run would have left.

    Attributes:
        settings: of the run.
        curve: accuracy of each round.
        rounds: it was asked for; by default as many as it has.
    """

    settings: Mapping[str, object]
    curve: Iterable[float]
    rounds: int | None = None

    def at(self, folder: Path) -> Path:
        """Write it."""
        curve = list(self.curve)
        rounds = self.rounds or len(curve)
        folder.mkdir(parents=True)
        config = parse([*options(self.settings), f"--rounds={rounds}"]).config
        (folder / "config.yaml").write_text(to_yaml(config))
        head = "round,traffic_up_bytes,traffic_down_bytes,time_padded_lanes,accuracy,time_wall,time_training,time_other"
        lines = [f"{r},1000000,2000000,0.5,{a!r},1700000000.0,1.5,0.5" for r, a in enumerate(curve, 1)]
        (folder / "metrics.csv").write_text("\n".join([head, *lines]) + "\n")
        if len(curve) == rounds:
            (folder / "summary.json").write_text(json.dumps({"rounds": rounds}))
        return folder


def table(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


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
        assert float(row["rounds_to_0.2_mean"]) == statistics.fmean(math.inf if r is None else r for r in reached)
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
    assert float(first["best_mean"]) == pytest.approx(55) and "(55.00 ± 21.21)" in out
    assert [second[key] for key in ("finished", "stopped", "best_mean")] == ["1", "1", "50.0"]
    assert "not begun: 1 runs" in out and "in brackets: so far" in out and "2..3 of 5" in out
    assert [row["seconds_mean"] for row in (first, second)] == ["5.0", "10.0"]


def test_a_run_that_reported_its_failure_is_failed_without_a_sweep(show: Showing) -> None:
    run = Written({"seed": 0}, [0.1], rounds=3).at(Path("runs/a"))
    log = Path("runs/a.log")
    log.write_text("fl_ddp: runs/a: FedAvg\nfl_ddp: error: it broke\ntorchrun says much\n")
    assert "failed: a: it broke" in show("runs")[1]
    log.write_text(log.read_text() + "fl_ddp: runs/a: FedAvg, going on after round 1\n")
    assert "failed" not in show("runs")[1]
    with RunFolder(run):
        assert table(Path("runs"))[0]["stopped"] == "1" and "running" in show("runs")[1]
    assert show("runs", "--out", "made/anew")[0] == 0 and table(Path("made/anew"))
    code, _, err = show("runs", "--out", "runs/a.log/x")
    assert (code, err) == (1, "results: error: runs/a.log/x: cannot be written (Not a directory)\n")


def groups_of(folder: Path, runs: Mapping[str, Written]) -> Grouping:
    for name, run in runs.items():
        run.at(folder / name)
    return grouped(find_runs([folder]).runs)


def test_runs_are_grouped_by_what_differs_and_nothing_else(tmp_path: Path) -> None:
    grouping = groups_of(
        tmp_path,
        {
            f"{method}{mu}{seed}": Written(
                {"method": method, "seed": seed, "name": f"{seed}", **({"method.mu": mu} if mu else {})}, [0.5]
            )
            for method, mu in (("FedAvg", 0), ("FedProx", 2), ("FedProx", 10), ("Scaffold", 0))
            for seed in (0, 1)
        },
    )
    # method.weights comes with the method: it does not differ beside it
    assert grouping.keys == ("method", "method.mu") and grouping.names == ("method", "mu")
    assert [g.values for g in grouping.groups] == [
        ("FedAvg", ""), ("FedProx", "2"), ("FedProx", "10"), ("Scaffold", "")
    ]  # fmt: skip
    assert [[run.seed for run in group.runs] for group in grouping.groups] == [[0, 1]] * 4


def test_names_are_as_short_as_they_can_be_told_apart(tmp_path: Path) -> None:
    runs = {f"{seed}{lr}": Written({"partition.seed": seed, "lr": lr}, [0.5]) for seed in (1, 2) for lr in (0.1, 0.2)}
    assert groups_of(tmp_path, runs).names == ("seed", "lr")
    assert Grouping(("data.seed", "partition.seed", "lr"), ()).names == ("data.seed", "partition.seed", "lr")


@given(st.lists(st.floats(0, 100), min_size=1, max_size=10))
def test_mean_and_spread_are_the_sample_s(values: list[float]) -> None:
    assert mean(values) == pytest.approx(np.mean(values))
    assert (spread(values) is None) == (len(values) < 2)
    if len(values) > 1:
        assert spread(values) == pytest.approx(np.std(values, ddof=1), abs=1e-9)


def test_missed_targets_are_counted() -> None:
    assert with_spread([3.0, math.inf, math.inf], "rounds") == "not reached by 2 of 3"
    assert (with_spread([math.inf], "rounds"), with_spread([], "percent")) == ("not reached", "-")


@given(st.lists(st.one_of(st.floats(allow_nan=False).map(str), st.sampled_from(["FedAvg", "null"])), max_size=8))
@settings(max_examples=50)
def test_values_are_sorted_numbers_first(values: list[str]) -> None:
    ordered = sorted(values, key=in_order)
    numbers = [float(v) for v in ordered if v not in ("FedAvg", "null")]
    assert numbers == sorted(numbers)
    assert [v for v in ordered if v in ("FedAvg", "null")] == sorted(v for v in values if v in ("FedAvg", "null"))
    assert ordered[: len(numbers)] == [v for v in ordered if v not in ("FedAvg", "null")]


def rising(top: float) -> list[float]:
    return [top * r / 4 for r in range(1, 5)]


def test_curves_show_mean_and_band_in_the_rounds_that_all_seeds_have(tmp_path: Path) -> None:
    runs = {
        "a": Written({"lr": 0.1, "seed": 0}, [0.1, 0.3, 0.5], rounds=9),
        "b": Written({"lr": 0.1, "seed": 1}, [0.3, 0.5], rounds=9),
        "c": Written({"lr": 0.2, "seed": 0}, [0.4, 0.8], rounds=9),
    }
    with paper_style():
        figure = curve_figure(groups_of(tmp_path, runs), parse_metric("final"))
    assert figure is not None
    (axes,) = figure.axes
    first, second = axes.lines
    assert first.get_xydata() == pytest.approx(np.array([[1, 20], [2, 40]]))
    assert second.get_xydata() == pytest.approx(np.array([[1, 40], [2, 80]]))
    (band,) = axes.collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    deviation = statistics.stdev([10, 30])
    assert (heights.min(), heights.max()) == pytest.approx((20 - deviation, 40 + deviation))


def test_many_groups_are_spread_over_panels_or_the_best_are_coloured(tmp_path: Path) -> None:
    two_keys = {
        f"{m},{lr}": Written({"method": m, "lr": lr}, rising(lr))
        for m in ("FedAvg", "Scaffold")
        for lr in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)
    }
    one_key = {f"{lr}": Written({"lr": lr}, rising(lr)) for lr in [r / 16 for r in range(1, 13)]}
    with paper_style():
        panels = curve_figure(groups_of(tmp_path / "two", two_keys), parse_metric("final"))
        single = curve_figure(groups_of(tmp_path / "one", one_key), parse_metric("final"))
    assert panels is not None and single is not None
    assert [axes.get_title() for axes in panels.axes] == ["method = FedAvg", "method = Scaffold"]
    assert [len(axes.lines) for axes in panels.axes] == [6, 6]
    assert len(single.axes[0].lines) == 12
    named = [text.get_text() for text in single.legends[0].get_texts()]
    assert len(named) == 9 and named[-1] == "4 others" and float(named[0]) == pytest.approx(12 / 16)


@pytest.mark.parametrize(
    ("values", "scale"), [((0.001, 0.1, 10), "log"), ((0, 0.1, 10), "symlog"), ((1, 2, 3), "linear")]
)
def test_axes_of_values_over_decades_are_logarithmic(tmp_path: Path, values: tuple[float, ...], scale: str) -> None:
    runs = {f"{mu}": Written({"method": "FedProx", "method.mu": mu}, rising(0.5)) for mu in values}
    with paper_style():
        figure = metric_figure(groups_of(tmp_path, runs), 0, parse_metric("final"))
    assert figure is not None
    assert figure.axes[0].get_xscale() == scale
    assert list(figure.axes[0].get_xticks()) == list(values)


def test_a_metric_over_categories_names_them(tmp_path: Path) -> None:
    tops = {"FedAvg": 0.5, "Scaffold": 0.75}
    runs = {
        f"{m}{seed}": Written({"method": m, "seed": seed}, rising(top)) for m, top in tops.items() for seed in (0, 1)
    }
    with paper_style():
        figure = metric_figure(groups_of(tmp_path, runs), 0, parse_metric("final"))
    assert figure is not None
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["FedAvg", "Scaffold"]
    heights = {float(np.ravel(line.get_ydata())[0]) for line in axes.lines}
    assert heights == {50.0, 75.0} and axes.get_ylabel() == "final accuracy (%)"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no folder is named"),
        (["nowhere"], "nowhere: is no folder; accepted: that of a sweep"),
        (["empty"], "empty: holds no runs"),
        (["empty", "--metric", "finale"], "--metric: 'finale' is no metric"),
        (["empty", "--metric", "final / fedavg"], "there are no rows to divide by; accepted: final"),
        (["empty", "--metrics", "final"], "--metrics: unknown option; did you mean --metric?"),
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


def test_numbers_of_a_real_run_are_those_it_reports(tmp_path: Path) -> None:
    run = read_run(simulated(SMALL, tmp_path))
    assert run is not None
    reported = run.summary["seconds"]
    assert isinstance(reported, dict)
    assert 0 < run.seconds <= sum(reported.values())
