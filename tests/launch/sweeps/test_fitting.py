"""A grid over choices, and over options that only some of them have."""

from __future__ import annotations

from pathlib import Path

import pytest

from fl_ddp.errors import ConfigError
from launch.sweeps.fitting import fitting
from launch.sweeps.point_file import read_points
from launch.sweeps.points import Point, combined, read_grid


def fitted(*grids: str) -> list[Point]:
    axes = [read_grid(text) for text in grids]
    return fitting(combined(axes), axes)


def test_a_baseline_is_run_once_and_a_method_for_each_of_its_coefficients() -> None:
    assert fitted("method=FedAvg,fedprox", "method.mu=0.1,1", "seed=0..1") == [
        {"method": "FedAvg", "seed": "0"},
        {"method": "FedAvg", "seed": "1"},
        *({"method": "fedprox", "method.mu": mu, "seed": seed} for mu in ("0.1", "1") for seed in ("0", "1")),
    ]


def test_so_are_other_choices_in_any_order() -> None:
    points = fitted(
        "partition.alpha=0.1,1", "partition=IID,Dirichlet,ClientDirichlet", "model.hidden=4,8", "model=MLP,LeNet5"
    )
    assert len(points) == (1 + 2 + 2) * (2 + 1)
    assert [point for point in points if point["partition"] == "IID" and "partition.alpha" in point] == []
    assert [point for point in points if point["model"] == "LeNet5" and "model.hidden" in point] == []


def test_an_option_that_none_has_and_one_that_all_have_stay() -> None:
    for grids in (("method=FedAvg,FedProx", "method.muh=1,2"), ("method=FedAvg,FedProx", "method.server_lr=1,2")):
        assert fitted(*grids) == combined([read_grid(text) for text in grids])
    assert fitted("method.mu=1,2", "seed=0") == [{"method.mu": "1", "seed": "0"}, {"method.mu": "2", "seed": "0"}]


def test_a_list_of_points_says_what_it_means(tmp_path: Path) -> None:
    (tmp_path / "points.yaml").write_text("- {method: FedAvg, method.mu: 1}\n- {method: FedProx, method.mu: 1}\n")
    axes = [read_points(tmp_path / "points.yaml"), read_grid("seed=0..1")]
    assert fitting(combined(axes), axes) == combined(axes)


def test_a_point_may_leave_the_choice_to_all_options(tmp_path: Path) -> None:
    file = tmp_path / "points.csv"
    file.write_text("method,lr\nFedAvg,\nFedProx,0.1\n,0.2\n")
    axes = [read_points(file), read_grid("method.mu=1")]
    assert fitting(combined(axes), axes) == [
        {"method": "FedAvg"},
        {"method": "FedProx", "lr": "0.1", "method.mu": "1"},
        {"lr": "0.2", "method.mu": "1"},
    ]


def test_an_unknown_choice_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--method: FedAgv is unknown; did you mean FedAvg"):
        fitted("method=FedAgv,FedProx", "method.mu=1")
    data = np_file(tmp_path)
    assert len(fitted(f"data={data},digits", "data.normalize=true,false")) == 4


def np_file(folder: Path) -> Path:
    """A file that names its reader by its ending."""
    (folder / "own.npz").write_bytes(b"")
    return folder / "own.npz"
