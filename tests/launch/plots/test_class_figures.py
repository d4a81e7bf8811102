"""The plots of classes and clients, of real runs: what is drawn is what the runs' files hold."""

from __future__ import annotations

import csv
import json
import shutil
import statistics
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from launching import simulated
from matplotlib.colors import to_hex

from launch.compare.found_runs import find_runs
from launch.compare.replicates import Design, design_of
from launch.plots.class_figure import class_figure
from launch.plots.client_figure import class_of_client_figure, client_figure
from launch.plots.figure_style import paper_style
from launch.plots.partition_figure import partition_figure
from launch.results import main

pytestmark = pytest.mark.slow
TINY: dict[str, object] = {
    "partition": "Dirichlet", "partition.alpha": 0.3, "clients": 4, "rounds": 3, "model.hidden": 16,
    "compile": False, "figures": False,
    "forgetting_every": 1, "device": "cpu",
}  # fmt: skip
Rows = list[dict[str, str]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two methods with two seeds each; FedProx's client 1 loses what it has most of in round 2."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        run = simulated({**TINY, "seed": seed, "name": f"a{seed}"}, folder)
        counts = json.loads((run / "partition.json").read_text())["counts"][1]
        name, number = max(counts.items(), key=lambda each: int(each[1]))
        reduction = f"1,{name},2,{number // 2}"
        simulated({**TINY, "seed": seed, "name": f"b{seed}", "method": "FedProx", "class_reduction": reduction}, folder)
    return folder


@pytest.fixture(scope="module")
def design(folder: Path) -> Design:
    """Of these runs, of which the reduction is left aside, which differs with the seed."""
    found = find_runs([folder]).runs
    for each in found:
        each.run.config.pop("class_reduction")  # type: ignore[attr-defined]
    return design_of(found)


def rows(folder: Path, run: str, table: str) -> Rows:
    with (folder / run / table).open(newline="") as file:
        return list(csv.DictReader(file))


def test_each_class_has_a_line_of_its_own_beside_that_of_all(design: Design, folder: Path) -> None:
    with paper_style():
        figure = class_figure(design)
    assert [axes.get_title() for axes in figure.axes] == ["FedAvg", "FedProx"]
    for run, axes in zip(("a0", "b0"), figure.axes, strict=True):
        course = rows(folder, run, "metrics.csv")
        columns = [*(f"accuracy/{k}" for k in range(10)), "accuracy"]
        for column, line in zip(columns, axes.lines, strict=True):
            assert line.get_ydata() == pytest.approx([100 * float(row[column]) for row in course])
        assert len({to_hex(line.get_color()) for line in axes.lines}) == 11
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["all classes", *map(str, range(10))]


def degrees(folder: Path, run: str, client: int, label: int, column: str = "forgetting_degree") -> list[float]:
    mine = [
        row for row in rows(folder, run, "forgetting.csv") if (row["client"], row["class"]) == (str(client), str(label))
    ]
    return [max(float(row[column]), -1.0) for row in mine]


def test_a_clients_map_is_the_mean_degree_over_seeds_beside_what_it_has(design: Design, folder: Path) -> None:
    with paper_style():
        figure = client_figure(design, 1)
    bars, heat = figure.axes[:2]
    expected = [
        [statistics.fmean(pair) for pair in zip(*(degrees(folder, run, 1, k) for run in ("a0", "a1")), strict=True)]
        for k in range(10)
    ]
    assert np.asarray(heat.images[0].get_array()) == pytest.approx(np.array(expected))
    counts = [json.loads((folder / run / "partition.json").read_text())["counts"][1] for run in ("a0", "a1")]
    at_first = [statistics.fmean(each.get(str(k), 0) for each in counts) for k in range(10)]
    assert [bar.get_width() for bar in bars.patches] == at_first  # type: ignore[attr-defined]
    assert [axes.get_title() for axes in figure.axes[1:4:2]] == ["FedAvg", "FedProx"]


def test_one_class_of_a_client_has_a_curve_for_each_setting(design: Design, folder: Path) -> None:
    counts = Counter(json.loads((folder / "a0" / "partition.json").read_text())["counts"][1])
    ((name, _),) = counts.most_common(1)
    with paper_style():
        figure = class_of_client_figure(design, 1, name)
    for axes, column in zip(figure.axes, ("forgetting_degree", "own_accuracy", "samples"), strict=True):
        scale = 1 if column == "samples" else 100
        for line, runs in zip(axes.lines, (("a0", "a1"), ("b0", "b1")), strict=True):
            values = list(zip(*(degrees(folder, run, 1, int(name), column) for run in runs), strict=True))
            assert line.get_ydata() == pytest.approx([scale * statistics.fmean(each) for each in values])


def test_the_band_of_a_client_ends_where_there_are_no_values(design: Design, folder: Path, tmp_path: Path) -> None:
    for run, own in (("a0", "0.9"), ("a1", "1.0")):
        shutil.copytree(folder / run, tmp_path / run)
        table = tmp_path / run / "forgetting.csv"
        head, *lines = (line.split(",") for line in table.read_text().splitlines())
        place = head.index("own_accuracy")
        told = [",".join([*line[:place], own, *line[place + 1 :]]) for line in lines]
        table.write_text("\n".join([",".join(head), *told]) + "\n")
    with paper_style():
        axes = class_of_client_figure(design_of(find_runs([tmp_path]).runs), 1, "3").axes[1]
    heights = np.concatenate([np.asarray(path.vertices)[:, 1] for path in axes.collections[0].get_paths()])
    assert (heights.min(), heights.max()) == pytest.approx((95 - statistics.stdev([90, 100]), 100))


def absent(source: Path, folder: Path, rounds: dict[str, tuple[int, ...]]) -> Design:
    """Copies of runs in whose forgetting.csv client 1 takes part in some rounds alone."""
    for run, present in rounds.items():
        shutil.copytree(source / run, folder / run)
        table = folder / run / "forgetting.csv"
        head, *lines = table.read_text().splitlines()
        kept = [each for each in lines if each.split(",")[1] != "1" or int(each.split(",")[0]) in present]
        table.write_text("\n".join([head, *kept]) + "\n")
    return design_of(find_runs([folder]).runs)


def test_a_client_that_is_not_in_every_cohort_is_drawn_in_the_rounds_it_was_in(folder: Path, tmp_path: Path) -> None:
    design = absent(folder, tmp_path, {"a0": (1,), "a1": (1, 3)})
    with paper_style():
        heat = client_figure(design, 1).axes[1]
        lines = class_of_client_figure(design, 1, "3").axes[0].lines
    assert [tick.get_text() for tick in heat.get_xticklabels()] == ["1", "3"]
    both, last = np.asarray(heat.images[0].get_array()).T
    first, second = ([degrees(folder, run, 1, k) for k in range(10)] for run in ("a0", "a1"))
    assert both == pytest.approx([(a[0] + b[0]) / 2 for a, b in zip(first, second, strict=True)])
    assert last == pytest.approx([b[2] for b in second])
    assert [list(np.asarray(line.get_xdata())) for line in lines] == [[1], [1, 3]], "a line for each seed"


def test_a_seed_that_has_only_begun_hides_no_other(folder: Path, tmp_path: Path) -> None:
    design = absent(folder, tmp_path, {"a0": (1, 2, 3), "a1": ()})
    with paper_style():
        heat = client_figure(design, 1).axes[1]
    assert np.asarray(heat.images[0].get_array()).shape == (10, 3)


def test_who_holds_what_is_drawn_once_for_settings_that_divide_alike(design: Design, folder: Path) -> None:
    with paper_style():
        figure = partition_figure(design)
    (axes,) = figure.axes
    counts = json.loads((folder / "a0" / "partition.json").read_text())["counts"]
    expected = {(k, int(name)): n for k, client in enumerate(counts) for name, n in client.items()}
    (bubbles,) = axes.collections
    assert {tuple(map(int, place)) for place in np.asarray(bubbles.get_offsets())} == expected.keys()
    largest = max(expected.values())
    areas = np.asarray(bubbles.get_sizes())  # type: ignore[attr-defined]
    assert areas == pytest.approx([max(121 * n / largest, 1) for n in expected.values()])


def test_the_command_leaves_what_was_asked_for(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = ["--classes", "--partitions", "--client", "2"]
    assert main([str(folder / "a0"), "--out", str(tmp_path), *asked]) == 0
    assert main([str(folder / "a0"), "--out", str(tmp_path), "--client=2", "--of_class=3"]) == 0
    stems = ("curves", "classes", "partitions", "client_2", "client_2_3")
    assert {f"{stem}.{kind}" for stem in stems for kind in ("png", "svg")} <= {each.name for each in tmp_path.iterdir()}
    assert "classes.png, partitions.png, client_2.png" in capfd.readouterr().out


def test_logs_that_a_glob_gives_are_left_out(folder: Path, tmp_path: Path) -> None:
    log = tmp_path / "a0.log"
    log.write_text("a run said this\n")
    assert main([str(log), str(folder / "a0"), "--out", str(tmp_path)]) == 0
    assert main([str(log)]) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--of_class", "3"], "--of_class: 3, but of which client?; accepted: --client 3, say, beside it"),
        (["--client", "7"], "--client: 7: no run tells of it; accepted: a client of runs with --forgetting_every"),
        (["--client", "1", "--of_class", "cat"], "--of_class: cat: client 1 has no such class; accepted: 0, 1, 2, 3,"),
        (["--tasks"], "--tasks: no run has tasks with test samples of their own; accepted: runs with --stream, "),
        (["--metric", "mae"], "--metric: mae: no run tells of it; accepted: of accuracy, generic, "),
        (["--metric", "rounds_to fedavg"], "--metric: rounds_to fedavg: there is no row fedavg; accepted: rounds_to"),
    ],
)
def test_what_cannot_be_drawn_is_said(
    words: list[str], message: str, folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([str(folder / "a0"), "--out", str(tmp_path), *words]) == 2
    told = capfd.readouterr()
    assert message in told.err and not told.out and not list(tmp_path.iterdir())
