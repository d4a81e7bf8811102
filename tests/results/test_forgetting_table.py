"""forgetting.csv: the degree by hand, its columns against a loop, and what a resume and another look leave of it."""

from __future__ import annotations

import csv
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL, resumed, simulated
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch import Tensor

from fl_ddp.check.runs import SOLO
from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine.lanes import ForEach, one_by_one
from fl_ddp.engine.samples import Samples
from fl_ddp.errors import ConfigError
from fl_ddp.federation import build_federation
from fl_ddp.ranks.outputs import BATCH
from fl_ddp.ranks.own_tests import right_by_class
from fl_ddp.results.figures import forgetting_figure
from fl_ddp.results.forgetting import XI, degree, mean_degree
from fl_ddp.results.forgetting_table import COLUMNS, ClassChange, mean_degrees

LOOKED = {**SMALL, "clients": 6, "cohort": 3, "rounds": 5, "forgetting_every": 2, "lr": 0.5, "figures": True}


def rows(folder: Path, name: str = "forgetting.csv") -> list[dict[str, str]]:
    with (folder / name).open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    ("received", "own", "expected"), [(0.8, 0.2, 0.75), (0.8, 0.8, 0.0), (0.5, 0.0, 1.0), (0.5, 0.75, -0.5)]
)
def test_the_degree_by_hand(received: float, own: float, expected: float) -> None:
    assert degree(received, own) == pytest.approx(expected, abs=1e-5)


def test_a_class_that_was_not_known_and_one_without_samples() -> None:
    assert degree(0.0, 0.0) == 0
    assert degree(0.0, 0.5) == pytest.approx(-0.5 / XI)
    assert math.isnan(degree(math.nan, math.nan))
    assert mean_degree([0.5, degree(0.0, 0.5), math.nan]) == -0.25
    assert mean_degree([math.nan]) is None and mean_degree([]) is None


def test_means_by_class() -> None:
    changes = [
        ClassChange(0, 0, 5, 0.5, 0.25), ClassChange(1, 0, 5, 0.5, 0.5), ClassChange(0, 1, 0, 0.0, 1.0),
        ClassChange(1, 1, 0, 0.0, 0.0), ClassChange(0, 2, 1, math.nan, math.nan),
    ]  # fmt: skip
    means = mean_degrees(changes, 3)
    assert means[:2] == pytest.approx((0.25, -0.5), abs=1e-5) and math.isnan(means[2])


def test_right_predictions_of_each_lane_by_label() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(2 * BATCH + 7, 3, generator=generator), torch.randint(4, (2 * BATCH + 7,), generator=generator)
    theta = torch.randn(3, 12, generator=generator)

    def predict(theta: Tensor, x: Tensor) -> Tensor:
        return x @ theta.view(3, 4)

    found = right_by_class(predict, theta, Samples(x, y), 5)
    for lane in range(3):
        right = predict(theta[lane], x).argmax(1) == y
        assert found[lane].tolist() == [int((right & (y == label)).sum()) for label in range(5)]


@pytest.mark.parametrize("spread", [None, one_by_one], ids=["side by side", "apart"])
def test_a_forward_pass_is_as_wide_for_any_number_of_lanes(spread: ForEach | None) -> None:
    """Of products of other shapes the last bits are others, and with them a label where two are nearly as likely."""
    samples, seen = Samples(torch.randn(230, 3), torch.zeros(230, dtype=torch.int64)), list[int]()

    def predict(theta: Tensor, x: Tensor) -> Tensor:
        seen.append(len(x))
        return x @ theta.view(3, 4)

    for lanes in (1, 3, 7):
        right_by_class(predict, torch.randn(lanes, 12), samples, 4, spread)
    assert Counter(seen) == ({100: 6, 30: 3} if spread is None else {100: 22, 30: 11})


def test_every_so_many_rounds_and_in_the_last_the_cohort_is_looked_at(tmp_path: Path) -> None:
    run = simulated(LOOKED, tmp_path)
    found, metrics = rows(run), rows(run, "metrics.csv")
    assert tuple(found[0]) == COLUMNS
    assert [row["round"] for row in metrics if row["forgetting_degree"]] == ["2", "4", "5"]
    federation = build_federation(from_mapping(LOOKED), SOLO)
    for finished in (2, 4, 5):
        here = [row for row in found if row["round"] == str(finished)]
        assert len(here) == 3 * 10
        assert [row["class"] for row in here[:10]] == list(federation.classes)
        for row in here:
            own = federation.labels[federation.clients[int(row["client"])]]
            assert int(row["samples"]) == int((own == federation.classes.index(row["class"])).sum())
            # what is received is what the round before left
            before = metrics[finished - 2]
            assert float(row["received_accuracy"]) == float(before[f"accuracy/{row['class']}"])
            known = degree(float(row["received_accuracy"]), float(row["own_accuracy"]))
            assert float(row["forgetting_degree"]) == known
        degrees = [max(float(row["forgetting_degree"]), -1.0) for row in here]
        assert float(metrics[finished - 1]["forgetting_degree"]) == pytest.approx(np.mean(degrees), abs=1e-12)
        of_class = [max(float(row["forgetting_degree"]), -1.0) for row in here if row["class"] == "3"]
        assert float(metrics[finished - 1]["forgetting_degree/3"]) == pytest.approx(np.mean(of_class), abs=1e-12)
    assert (run / "forgetting.png").stat().st_size > 10_000


def test_tensorboard_has_the_degree_of_each_class_after_each_look(tmp_path: Path) -> None:
    run = simulated(LOOKED, tmp_path)
    metrics = {int(row["round"]): row for row in rows(run, "metrics.csv")}
    events = EventAccumulator(str(run), size_guidance={"scalars": 0}).Reload()
    shown = {tag for tag in events.Tags()["scalars"] if tag.startswith("forgetting_degree/")}
    assert shown == {"forgetting_degree/average", *(f"forgetting_degree/{name}" for name in range(10))}
    for tag in shown:
        column = tag.removesuffix("/average")
        stored = {finished: float(metrics[finished][column]) for finished in (2, 4, 5)}
        assert {event.step: event.value for event in events.Scalars(tag)} == pytest.approx(stored, rel=1e-6)


@pytest.mark.slow
def test_looking_changes_nothing_else(tmp_path: Path) -> None:
    looked, plain = (simulated({**LOOKED, "forgetting_every": every, "name": str(every)}, tmp_path) for every in (1, 0))
    for ours, theirs in zip(rows(looked, "metrics.csv"), rows(plain, "metrics.csv"), strict=True):
        assert all(ours[k] == v for k, v in theirs.items() if not k.startswith("time"))
        assert "forgetting_degree" not in theirs
    assert not (plain / "forgetting.csv").exists() and not (plain / "forgetting.png").exists()


@pytest.mark.slow
def test_a_resumed_run_s_table_is_that_of_one_that_never_stopped(tmp_path: Path) -> None:
    whole = simulated(LOOKED, tmp_path / "whole")
    part = simulated({**LOOKED, "rounds": 4}, tmp_path / "part")
    with (part / "forgetting.csv").open("a") as file:
        file.write("5,0,3,1,0.5,0.5,0.0\n")
    resumed(part, rounds=5)
    assert (part / "forgetting.csv").read_bytes() == (whole / "forgetting.csv").read_bytes()


def test_a_run_resumed_when_no_round_is_left_has_its_figure_again(tmp_path: Path) -> None:
    """A kill may come between the last checkpoint and the figures; TensorBoard's are gone with its older file."""
    run = simulated({**LOOKED, "rounds": 3}, tmp_path)
    drawn = (run / "forgetting.png").read_bytes()
    (run / "forgetting.png").unlink()
    (run / "summary.json").unlink()
    resumed(run)
    assert (run / "forgetting.png").read_bytes() == drawn
    assert "forgetting_degree" in EventAccumulator(str(run)).Reload().Tags()["images"]


def test_local_statistics_leave_nothing_to_compare_with() -> None:
    with pytest.raises(ConfigError, match="--forgetting_every: 2, but with --running_statistics local") as error:
        from_mapping({"forgetting_every": 2, "running_statistics": "local", "local_test": 0.2})
    assert "accepted: 0" in str(error.value)


def test_the_figure_shows_each_client_s_classes_and_what_they_lost() -> None:
    changes = [ClassChange(3 * k, c, k * c, 0.5, 0.25 * c) for k in range(3) for c in range(4)]
    figure = forgetting_figure(changes, ["a", "b", "c", "d"])
    bubbles, heat = figure.axes[:2]
    assert np.asarray(bubbles.collections[0].get_offsets()).shape == (6, 2)
    shown = heat.images[0].get_array()
    assert shown is not None and shown.shape == (4, 3)
    assert shown[:, 0].tolist() == pytest.approx([1.0, 0.5, 0.0, -0.5], abs=1e-5)
    assert [label.get_text() for label in heat.get_xticklabels()] == ["0", "3", "6"]


def test_degrees_in_the_figure_are_cut_off_where_their_means_are_and_grey_where_nothing_was_known() -> None:
    own = [(0.1, 0.9), (0.4, 0.6), (0.0, 1.0), (0.0, 0.0), (math.nan, math.nan)]
    changes = [ClassChange(0, label, 1, *accuracies) for label, accuracies in enumerate(own)]
    images = forgetting_figure(changes, ["a", "b", "c", "d", "e"]).axes[1].images
    degrees, grey = (np.ma.MaskedArray(each.get_array()).filled(np.nan)[:, 0].tolist() for each in images)
    assert degrees == pytest.approx([-1.0, -0.5, *[math.nan] * 3], abs=1e-4, nan_ok=True)
    assert np.isfinite(grey).tolist() == [False, False, True, True, False]
