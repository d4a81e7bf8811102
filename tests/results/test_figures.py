"""The picture of a partition, and whether a run draws any."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from launching import resumed, simulated
from matplotlib.collections import PathCollection
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from fl_ddp.results.figures import partition_figure

LABELS = np.array([0] * 80 + [1] * 20 + [2] * 50)
CLIENTS = [np.arange(80), np.arange(80, 120), np.arange(120, 150)]


def test_bubble_areas_are_proportional_to_samples_of_client_and_class() -> None:
    figure = partition_figure(CLIENTS, LABELS, ["a", "b", "c"])
    (bubbles,) = (each for axes in figure.axes for each in axes.collections if isinstance(each, PathCollection))
    places, sizes = np.asarray(bubbles.get_offsets(), int), np.asarray(bubbles.get_sizes(), float)
    areas = {(int(place[0]), int(place[1])): size for place, size in zip(places, sizes, strict=True)}
    assert areas.keys() == {(0, 0), (1, 1), (1, 2), (2, 2)}
    assert areas[1, 1] / areas[0, 0] == pytest.approx(20 / 80)
    assert areas[2, 2] / areas[0, 0] == pytest.approx(30 / 80)


def test_bars_show_the_size_of_each_client() -> None:
    figure = partition_figure(CLIENTS, LABELS, ["a", "b", "c"])
    assert [bar.get_height() for bar in figure.axes[0].patches] == [80, 40, 30]  # type: ignore[attr-defined]


def test_title_says_how_many_of_many_clients_are_drawn() -> None:
    labels = np.arange(1000) % 10
    clients = np.split(np.arange(1000), 100)
    figure = partition_figure(clients, labels, [str(label) for label in range(10)])
    assert figure.get_suptitle() == "100 clients (first 50 shown), 1,000 samples, 10 classes"
    assert len(figure.axes[0].patches) == 50


def test_title_says_how_many_samples_of_overlapping_clients_are_different() -> None:
    figure = partition_figure([np.arange(80), np.arange(50, 90)], LABELS, ["a", "b", "c"])
    assert figure.get_suptitle() == "2 clients, 120 samples (90 different), 3 classes"


@pytest.mark.parametrize(("num_clients", "num_classes"), [(1, 1), (50, 200)])
def test_extreme_shapes_are_drawn_without_pyplot(num_clients: int, num_classes: int) -> None:
    labels = np.arange(1000) % num_classes
    clients = np.array_split(np.arange(1000), num_clients)
    file = io.BytesIO()
    partition_figure(clients, labels, [f"class {label}" for label in range(num_classes)]).savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")
    assert plt.get_fignums() == []


RUN: Mapping[str, object] = {
    "data": "digits", "model.hidden": 8, "clients": 3, "batch_size": 100, "compile": False, "device": "cpu",
    "rounds": 2, "forgetting_every": 1, "stream": "Permuted", "stream.tasks": 2, "stream.task_rounds": 2, "name": "run",
}  # fmt: skip
DRAWN = {"partition.png": "partition", "forgetting.png": "forgetting_degree", "tasks.png": "tasks"}


def images(run: Path) -> dict[str, bytes]:
    """What TensorBoard shows."""
    events = EventAccumulator(str(run)).Reload()
    return {tag: events.Images(tag)[0].encoded_image_string for tag in events.Tags()["images"]}


def test_a_run_draws_figures_unless_told_otherwise_and_may_draw_them_later(tmp_path: Path) -> None:
    plain = simulated({**RUN, "figures": False}, tmp_path / "plain")
    assert images(plain) == {} and not [*plain.glob("*.png")]
    drawn = simulated(RUN, tmp_path / "drawn")
    shown = images(drawn)
    assert shown.keys() == {*DRAWN.values(), "confusion"}
    assert {path.name: path.read_bytes() for path in drawn.glob("*.png")} == {
        file: shown[tag] for file, tag in DRAWN.items()
    }
    tables = {path.name: path.read_bytes() for path in drawn.glob("*.safetensors")}
    assert tables and tables == {path.name: path.read_bytes() for path in plain.glob("*.safetensors")}
    assert images(resumed(plain, figures=True, rounds=4)).keys() == shown.keys()
    assert (plain / "partition.png").read_bytes() == shown["partition"]
    assert images(resumed(drawn, figures=False, rounds=4)) == {}
    assert [path.name for path in drawn.glob("*.png")] == ["partition.png"], "the others were of an earlier round"
