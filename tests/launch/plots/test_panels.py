"""Many curves: spread over panels in which methods are beside each other, dashed, or grey behind the best."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from written_runs import Written, design_in, rising

from launch.numbers.metric import Cost, parse_metric
from launch.plots.curve_figure import curve_figure
from launch.plots.figure_style import paper_style

Setting = dict[str, object]


def with_mu(others: Sequence[str], strengths: Sequence[float]) -> list[Setting]:
    """Methods, and one that alone has an option."""
    settings: list[Setting] = [{"method": method} for method in others]
    return settings + [{"method": "FedProx", "method.mu": mu} for mu in strengths]


WITH_MU = with_mu(["FedAvg"], [0.1, 1])
MANY = with_mu(["FedAvg", "Scaffold", "FedDyn", "FedNova", "Ditto"], [0.1, 0.2, 0.5, 1, 2])


def over_rates(settings: Sequence[Setting], rates: Sequence[float]) -> list[Setting]:
    return [{**each, "lr": lr} for each in settings for lr in rates]


def drawn(folder: Path, settings: Sequence[Setting], over: Cost | None = None) -> Figure:
    runs = {str(i): Written(each, rising((i + 1) / 32)) for i, each in enumerate(settings)}
    with paper_style():
        figure = curve_figure(design_in(folder, runs), parse_metric("final"), over)
    assert figure is not None
    return figure


def titles(figure: Figure) -> list[str]:
    return [axes.get_title() for axes in figure.axes]


def names(figure: Figure) -> list[str]:
    return [text.get_text() for text in figure.legends[0].get_texts()]


def looks(axes: Axes) -> set[tuple[object, object]]:
    return {(line.get_color(), line.get_linestyle()) for line in axes.lines}


@pytest.mark.parametrize("over", [None, "traffic"])
def test_an_option_that_a_method_has_not_makes_no_panels(over: Cost | None, tmp_path: Path) -> None:
    figure = drawn(tmp_path, over_rates(WITH_MU, [0.1, 0.2, 0.3, 0.4]), over)
    assert titles(figure) == ["lr = 0.1", "lr = 0.2", "lr = 0.3", "lr = 0.4"]
    assert [len(axes.lines) for axes in figure.axes] == [3, 3, 3, 3]
    assert names(figure) == ["method=FedAvg", "method=FedProx, mu=0.1", "method=FedProx, mu=1"]


def test_methods_stay_beside_each_other(tmp_path: Path) -> None:
    methods: list[Setting] = [{"method": "FedAvg"}, {"method": "Scaffold"}]
    figure = drawn(tmp_path, over_rates(methods, [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]))
    assert titles(figure) == [f"lr = 0.{i}" for i in range(1, 7)]
    assert names(figure) == ["FedAvg", "Scaffold"]


def test_panels_with_all_methods_are_better_than_fewer_panels(tmp_path: Path) -> None:
    rates = over_rates([{"method": "FedAvg"}, {"method": "Scaffold"}], [0.1, 0.2, 0.3])
    epochs = {"FedAvg": (1, 5), "Scaffold": (1, 3)}
    figure = drawn(tmp_path, [{**each, "local_epochs": n} for each in rates for n in epochs[str(each["method"])]])
    assert titles(figure) == ["lr = 0.1", "lr = 0.2", "lr = 0.3"], "nobody but FedAvg has five epochs"


def test_of_one_method_the_key_of_the_fewest_panels_is_taken(tmp_path: Path) -> None:
    settings: list[Setting] = [{"local_epochs": n} for n in (1, 5)]
    assert titles(drawn(tmp_path, over_rates(settings, [0.1, 0.2, 0.3, 0.4, 0.5]))) == [
        "local_epochs = 1",
        "local_epochs = 5",
    ]


def test_where_no_key_is_left_lines_are_dashed_in_one_panel(tmp_path: Path) -> None:
    figure = drawn(tmp_path, MANY)
    (axes,) = figure.axes
    assert axes.get_title() == "" and len(axes.lines) == len(looks(axes)) == len(MANY)
    in_legend = {(line.get_color(), line.get_linestyle()) for line in figure.legends[0].get_lines()}
    assert looks(axes) == in_legend and len(names(figure)) == len(MANY)


def test_panels_of_many_lines_are_dashed_too(tmp_path: Path) -> None:
    figure = drawn(tmp_path, over_rates(MANY, [0.1, 0.2]))
    assert titles(figure) == ["lr = 0.1", "lr = 0.2"]
    assert [len(looks(axes)) for axes in figure.axes] == [len(MANY), len(MANY)]


def test_of_more_lines_than_can_be_told_apart_the_best_have_colours(tmp_path: Path) -> None:
    figure = drawn(tmp_path, [{"lr": i / 32} for i in range(1, 21)])
    (axes,) = figure.axes
    assert len(axes.lines) == 20 and len(looks(axes)) == 9
    named = names(figure)
    assert len(named) == 9 and named[-1] == "12 others" and float(named[0]) == pytest.approx(20 / 32)


def test_a_long_legend_lies_within_its_figure(tmp_path: Path) -> None:
    figure = drawn(tmp_path, [{"lr": i / 32} for i in range(1, 17)])
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    box = figure.legends[0].get_window_extent()
    assert box.y0 >= 0 and box.y1 <= figure.bbox.y1 and len(names(figure)) == 16


def test_long_values_of_panels_are_shortened(tmp_path: Path) -> None:
    settings: list[Setting] = [{"data": "Npz", "data.path": f"/data/{letter * 40}.npz"} for letter in "ab"]
    figure = drawn(tmp_path, over_rates(settings, [0.1, 0.2, 0.3, 0.4, 0.5]))
    assert titles(figure) == [f"{letter * 12}…{letter * 8}.npz" for letter in "ab"]
