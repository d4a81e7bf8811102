"""How far clients differ, as a run's clients.csv tells it, also one of before it had losses."""

from __future__ import annotations

from pathlib import Path

import pytest

from fl_ddp.errors import ConfigError
from launch.numbers.metric import SPREADS, parse_metric
from launch.run.spread_curves import spread_curve

OLD = """round,client,samples,test_samples,received_accuracy,own_accuracy
2,0,5,4,0.5,0.75
2,1,5,4,0.25,0.25
2,2,5,0,,
4,0,5,4,1.0,
4,1,5,4,0.5,1.0
4,2,5,"""


def test_curves_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "clients.csv").write_text(OLD)
    assert spread_curve(tmp_path, "worst_initial") == [(2, 0.25), (4, 0.5)]
    assert spread_curve(tmp_path, "deviation_initial") == [(2, 0.125), (4, 0.25)]
    assert spread_curve(tmp_path, "worst_personalised") == [(2, 0.25), (4, 1.0)]
    assert spread_curve(tmp_path, "deviation_personalised") == [(2, 0.25), (4, 0.0)]


def test_errors_of_regressions_have_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "clients.csv").write_text(OLD.replace("accuracy", "mae").replace("0.75", "75.0"))
    assert spread_curve(tmp_path, "worst_initial_mae") == [(2, 0.5), (4, 1.0)]
    assert spread_curve(tmp_path, "deviation_initial_mae") == [(2, 0.125), (4, 0.25)]
    assert spread_curve(tmp_path, "worst_personalised_mae") == [(2, 75.0), (4, 1.0)]
    assert spread_curve(tmp_path, "worst_initial") == spread_curve(tmp_path, "deviation_personalised") == []
    (tmp_path / "clients.csv").write_text(OLD)
    assert spread_curve(tmp_path, "worst_initial_mae") == []


def test_without_a_file_there_is_nothing(tmp_path: Path) -> None:
    assert spread_curve(tmp_path, "worst_initial") == []


def test_a_broken_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "clients.csv").write_text("round,client\n1,2\n")
    with pytest.raises(ConfigError, match=r"clients\.csv: is not what a run writes \('received_accuracy'\)"):
        spread_curve(tmp_path, "worst_initial")


@pytest.mark.parametrize("name", SPREADS)
def test_they_are_metrics(name: str) -> None:
    metric = parse_metric(f"last10 of {name}")
    errors = name.endswith("_mae")
    assert metric.quantity == name and metric.less_is_better == (errors or name.startswith("deviation"))
    assert metric.unit == ("number" if errors else "percent") and metric.scale == (1 if errors else 100)
