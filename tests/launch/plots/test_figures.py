"""The plots of launch.results."""

from __future__ import annotations

import statistics
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from written_runs import Written, design_in, rising

from launch.compare.found_runs import find_runs
from launch.compare.replicates import Design, Replicates, design_of
from launch.numbers.metric import Cost, parse_metric
from launch.plots.class_figure import panel_title
from launch.plots.curve_figure import curve_figure
from launch.plots.figure_style import paper_style
from launch.plots.metric_figure import metric_figure
from launch.plots.series import series
from launch.run.cost import unit_of


def test_curves_have_a_band_in_the_rounds_that_all_seeds_have_and_are_dotted_beyond(tmp_path: Path) -> None:
    runs = {
        "a": Written({"lr": 0.1, "seed": 0}, [0.1, 0.3, 0.5], rounds=9),
        "b": Written({"lr": 0.1, "seed": 1}, [0.3, 0.5], rounds=9),
        "c": Written({"lr": 0.2, "seed": 0}, [0.4, 0.8], rounds=9),
    }
    with paper_style():
        figure = curve_figure(design_in(tmp_path, runs), parse_metric("final"))
    assert figure is not None
    (axes,) = figure.axes
    first, beyond, second = axes.lines
    assert first.get_xydata() == pytest.approx(np.array([[1, 20], [2, 40]]))
    assert beyond.get_xydata() == pytest.approx(np.array([[2, 40], [3, 50]])) and beyond.get_linestyle() == ":"
    assert second.get_xydata() == pytest.approx(np.array([[1, 40], [2, 80]]))
    (band,) = axes.collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    deviation = statistics.stdev([10, 30])
    assert (heights.min(), heights.max()) == pytest.approx((20 - deviation, 40 + deviation))


def test_a_band_ends_where_there_are_no_values(tmp_path: Path) -> None:
    runs = {f"{seed}": Written({"lr": 0.1, "seed": seed}, curve) for seed, curve in enumerate([[0.0, 0.9], [0.1, 1.0]])}
    with paper_style():
        figure = curve_figure(design_in(tmp_path, runs), parse_metric("final"))
    assert figure is not None
    (band,) = figure.axes[0].collections
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert (heights.min(), heights.max()) == (0, 100)
    deviation = statistics.stdev([0, 10])
    assert sorted({*heights.round(9)}) == pytest.approx([0, 5 + deviation, 95 - deviation, 100])


def test_a_spread_over_an_option_ends_there_too_where_it_is_of_shares(tmp_path: Path) -> None:
    curves = [[0.0, 0.9], [0.5, 1.0]]
    runs = {f"{seed}": Written({"lr": 0.1, "seed": seed}, curve) for seed, curve in enumerate(curves)}
    runs |= {f"{seed}b": Written({"lr": 0.2, "seed": seed}, curve) for seed, curve in enumerate(curves)}
    design = design_in(tmp_path, runs)
    for text, least, most in (("final", 95 - statistics.stdev([90, 100]), 100), ("rounds_to 0.5", None, 1.5)):
        with paper_style():
            figure = metric_figure(design, 0, parse_metric(text))
        assert figure is not None
        (whiskers,) = (each for each in figure.axes[0].collections if isinstance(each, LineCollection))
        low, high = whiskers.get_segments()[0][:, 1]
        deviation = statistics.stdev([2, 1])
        assert (low, high) == pytest.approx((least, most) if least else (most - deviation, most + deviation))


@pytest.mark.parametrize(("over", "of_round", "label"), [("traffic", 3.0, "traffic (MB)"), ("time", 2.0, "time (s)")])
def test_curves_may_be_over_what_rounds_cost(tmp_path: Path, over: Cost, of_round: float, label: str) -> None:
    runs = {
        "a": Written({"lr": 0.1, "seed": 0}, [0.1, 0.3, 0.5], rounds=9),
        "b": Written({"lr": 0.1, "seed": 1}, [0.3, 0.5], rounds=9),
    }
    design = design_in(tmp_path, runs)
    file = tmp_path / "b" / "metrics.csv"  # its rounds cost twice as much
    file.write_text(file.read_text().replace("1000000,2000000", "4000000,2000000").replace(",1.5,7.0", ",3.5,7.0"))
    with paper_style():
        figure = curve_figure(design_of(find_runs([tmp_path]).runs), parse_metric("final"), over)
        alike = curve_figure(design, parse_metric("final"), over)
    assert figure is not None and alike is not None
    first, beyond = figure.axes[0].lines
    assert first.get_xydata() == pytest.approx(np.array([[1.5 * of_round, 20], [3 * of_round, 40]]))
    assert beyond.get_xydata() == pytest.approx(np.array([[3 * of_round, 40], [4 * of_round, 50]]))
    assert figure.axes[0].get_xlabel() == label
    assert alike.axes[0].lines[0].get_xdata() == pytest.approx([of_round, 2 * of_round])


@pytest.mark.parametrize(
    ("cost", "most", "unit"),
    [
        ("traffic", 10.0, ("MB", 1e6)),
        ("traffic", 9.9e9, ("MB", 1e6)),
        ("traffic", 1e10, ("GB", 1e9)),
        ("traffic", 1e15, ("TB", 1e12)),
        ("time", 0.0, ("s", 1)),
        ("time", 600.0, ("min", 60)),
        ("time", 36000.0, ("h", 3600)),
    ],
)
def test_an_axis_has_a_unit_that_fits(cost: Cost, most: float, unit: tuple[str, float]) -> None:
    assert unit_of(cost, most) == unit


@pytest.mark.parametrize(
    ("values", "scale"), [((0.001, 0.1, 10), "log"), ((0, 0.1, 10), "symlog"), ((1, 2, 3), "linear")]
)
def test_axes_of_values_over_decades_are_logarithmic(tmp_path: Path, values: tuple[float, ...], scale: str) -> None:
    runs = {f"{mu}": Written({"method": "FedProx", "method.mu": mu}, rising(0.5)) for mu in values}
    with paper_style():
        figure = metric_figure(design_in(tmp_path, runs), 0, parse_metric("final"))
    assert figure is not None
    assert figure.axes[0].get_xscale() == scale
    assert list(figure.axes[0].get_xticks()) == list(values)


@pytest.mark.parametrize("metric", ["final", "accuracy", "final of accuracy"])
def test_a_metric_over_categories_names_them(metric: str, tmp_path: Path) -> None:
    tops = {"FedAvg": 0.5, "Scaffold": 0.75}
    runs = {
        f"{m}{seed}": Written({"method": m, "seed": seed}, rising(top)) for m, top in tops.items() for seed in (0, 1)
    }
    with paper_style():
        figure = metric_figure(design_in(tmp_path, runs), 0, parse_metric(metric))
    assert figure is not None
    (axes,) = figure.axes
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["FedAvg", "Scaffold"]
    heights = {float(np.ravel(line.get_ydata())[0]) for line in axes.lines}
    assert heights == {50.0, 75.0} and axes.get_ylabel() == "final accuracy (%)"


def test_files_are_called_by_as_much_of_their_path_as_tells_them_apart(tmp_path: Path) -> None:
    names = ("a/one.npz", "b/one.npz", "b/two.npz")
    paths = [str(tmp_path / name) for name in names]
    sets = tuple(Replicates((path, lr), ()) for path in paths for lr in ("0.1", "1"))
    design = Design(("data.path", "lr"), sets)
    short = dict(zip(paths, ("a/one.npz", "b/one.npz", "two.npz"), strict=True))
    assert design.written == (short, {"0.1": "0.1", "1": "1"})
    named = series(design, sets, parse_metric("final"), without=1)
    assert set(named.labels.values()) == set(short.values())
    assert panel_title(design, sets[0]) == "a/one.npz, lr = 0.1" and design.shown(sets[0]) == ("a/one.npz", "0.1")


def test_a_seed_that_began_late_leaves_the_curve_of_the_others(tmp_path: Path) -> None:
    runs = {
        "a": Written({"seed": 0}, rising(0.8), rounds=9),
        "b": Written({"seed": 1}, [0.4], rounds=9),
    }
    with paper_style():
        figure = curve_figure(design_in(tmp_path, runs), parse_metric("final"))
    assert figure is not None
    common, beyond = figure.axes[0].lines
    assert common.get_xydata() == pytest.approx(np.array([[1, 30]])) and common.get_marker() == "."
    assert beyond.get_xydata() == pytest.approx(np.array([[1, 30], [2, 40], [3, 60], [4, 80]]))


def test_a_single_round_is_a_point_over_a_whole_number(tmp_path: Path) -> None:
    with paper_style():
        figure = curve_figure(design_in(tmp_path, {"a": Written({}, [0.5])}), parse_metric("final"))
    assert figure is not None
    (axes,) = figure.axes
    (line,) = axes.lines
    assert line.get_marker() == "."
    low, high = axes.get_xlim()
    assert [tick for tick in axes.get_xticks() if low <= tick <= high] == [1]


@pytest.mark.parametrize(
    ("metric", "label"),
    [
        ("final", "accuracy (%)"),
        ("best", "best accuracy (%)"),
        ("ema0.5", "ema0.5 accuracy (%)"),
        ("rounds_to 0.5 of running_mean", "running mean accuracy (%)"),
        ("last10 of forgetting", "last10 forgetting (%)"),
    ],
)
def test_a_curve_s_axis_says_what_is_drawn(tmp_path: Path, metric: str, label: str) -> None:
    run = Written({}, rising(0.8), forgetting=rising(0.2))
    with paper_style():
        figure = curve_figure(design_in(tmp_path, {"a": run}), parse_metric(metric))
    assert figure is not None and figure.axes[0].get_ylabel() == label


def test_the_settings_that_forget_least_have_colours(tmp_path: Path) -> None:
    lost = [r / 32 for r in range(1, 21)]
    runs = {f"{each}": Written({"lr": each}, rising(0.5), forgetting=[each] * 4) for each in lost}
    with paper_style():
        figure = curve_figure(design_in(tmp_path, runs), parse_metric("final of forgetting"))
    assert figure is not None
    named = [text.get_text() for text in figure.legends[0].get_texts()]
    assert list(map(float, named[:-1])) == lost[:8] and named[-1] == "12 others"


def test_categories_are_sorted_where_the_grid_is_incomplete(tmp_path: Path) -> None:
    points = [("FedAvg", 1), ("Scaffold", 1), ("FedDyn", 2), ("Scaffold", 2)]
    runs = {
        f"{m}{shards}": Written({"method": m, "partition.shards_per_client": shards}, rising(0.5))
        for m, shards in points
    }
    design = design_in(tmp_path, runs)
    with paper_style():
        figure = metric_figure(design, design.keys.index("method"), parse_metric("final"))
    assert figure is not None
    ticks = [tick.get_text() for tick in figure.axes[0].get_xticklabels()]
    assert ticks == ["FedAvg", "FedDyn", "Scaffold"]


ONE_HAS_NO_MU: list[dict[str, object]] = [
    {"method": "FedAvg"}, {"method": "FedProx", "method.mu": 1}, {"method": "FedProx", "method.mu": 2},
]  # fmt: skip


def test_settings_of_one_category_are_told_apart_and_lie_around_its_tick(tmp_path: Path) -> None:
    design = design_in(tmp_path, {str(i): Written(each, rising(0.5)) for i, each in enumerate(ONE_HAS_NO_MU)})
    with paper_style():
        figure = metric_figure(design, design.keys.index("method"), parse_metric("final"))
    assert figure is not None
    (axes,) = figure.axes
    places = sorted({float(x) for line in axes.lines for x in np.ravel(line.get_xdata())})
    assert places == pytest.approx([0, 0.875, 1.125])
    assert [text.get_text() for legend in figure.legends for text in legend.get_texts()] == ["-", "1", "2"]
    assert len({line.get_color() for legend in figure.legends for line in legend.get_lines()}) == 3


def test_an_option_that_a_setting_has_not_is_not_in_its_name(tmp_path: Path) -> None:
    design = design_in(tmp_path, {str(i): Written(each, rising(0.5)) for i, each in enumerate(ONE_HAS_NO_MU)})
    named = series(design, design.sets, parse_metric("final"), without=None)
    assert sorted(named.labels.values()) == ["method=FedAvg", "method=FedProx, mu=1", "method=FedProx, mu=2"]
