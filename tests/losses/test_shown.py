"""What files, TensorBoard, the terminal and tables say of losses whose targets are numbers."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from launching import SMALL, simulated
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.custom_scalar.layout_pb2 import Layout

from fl_ddp.course.progress import Progress
from fl_ddp.losses.mse import MSE
from fl_ddp.results.metrics import Columns, Metrics, Record, perplexity
from launch.numbers.metric import parse_metric, quantity_name, with_sign
from launch.numbers.read_off import read_off
from launch.results import main as results
from launch.run.stored import read_run

REGRESSION = Columns((), ("training",), everybody=True, score=MSE.score, measures=MSE.measures)
RECORD = Record(
    2, 10, 1000, 2000, 0.25, train_loss=1 / 3, loss=1 / 11, initial_accuracy=1 / 13, personalised_accuracy=1 / 17,
    initial_accuracy_cohort=1 / 19, personalised_accuracy_all=1 / 23, measures={"mae": 1 / 29, "r2": 1 / 31},
    seconds={"training": 1 / 37}, wall=1e9,
)  # fmt: skip


def test_the_measures_of_a_record_come_back_from_columns_of_their_own(tmp_path: Path) -> None:
    bare = Record(3, 11, 1001, 2001, 0.5, wall=1e9)
    file = Metrics(tmp_path / "metrics.csv", REGRESSION, None)
    for record in (RECORD, bare):
        file.append(record, None, None)
    file.file.close()
    again = Metrics(tmp_path / "metrics.csv", REGRESSION, file.file.state())
    again.file.close()
    assert again.earlier == [RECORD, bare]


def test_models_are_compared_by_their_loss_where_there_is_no_accuracy() -> None:
    assert RECORD.goodness("mae") == -1 / 11
    assert replace(RECORD, accuracy=0.5).goodness("accuracy") == 0.5
    assert replace(RECORD, loss=float("nan")).goodness("mae") is None
    assert Record(3, 11, 1001, 2001, 0.5).goodness("mae") is None


def test_progress_tells_the_measure(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress(0, 2, "mae")
    progress.update(RECORD)
    progress.close()
    assert capsys.readouterr().out.startswith("round 2/2  mae 0.0345  personalised 0.0588  loss 0.0909")


def test_a_regression_is_shown_by_its_measures_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = simulated({**SMALL, "loss": "mse", "partition": "IID", "local_test": 0.2}, tmp_path)
    table = capsys.readouterr().out
    assert re.search(r"^mae +\d", table, re.M) and re.search(r"^personalised mae +\d", table, re.M)
    assert "accuracy" not in table and "forgetting  " not in table and "\n\n\n" not in table
    events = EventAccumulator(str(run)).Reload()
    tags = set(events.Tags()["scalars"])
    assert {"Results/mae", "Results/r2", "loss/test", "mae/initial", "mae/personalised"} <= tags
    assert not any("accuracy" in tag or "forgetting" in tag.lower() for tag in tags - {"time/forgetting"})
    (stored,) = events.Tensors("custom_scalars__config__")
    charts = {
        (category.title, chart.title): [tag for tag in tags for regex in chart.multiline.tag if re.match(regex, tag)]
        for category in Layout.FromString(stored.tensor_proto.string_val[0]).category
        for chart in category.chart
    }
    assert charts["Global model", "mae"] == ["Results/mae"] and charts["Global model", "r2"] == ["Results/r2"]
    assert not any("ccuracy" in category or "orgetting" in category for category, _ in charts)


CURVE = [(1, 3.0), (2, 1.5), (3, 2.0)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("final of mae", 2.0),
        ("best of mae", 1.5),
        ("best of r2", 3.0),
        ("rounds_to 1.75 of mae", 2),
        ("rounds_to 3 of loss", 1),
    ],
)
def test_tables_read_errors_as_numbers_of_which_less_is_better(text: str, value: float) -> None:
    found = read_off(parse_metric(text), CURVE, ended=True)
    assert found is not None and (found.value, found.missed) == (value, False)


def test_errors_have_no_percent_and_less_of_them_is_better() -> None:
    mae, r2, own = (parse_metric(f"final of {name}") for name in ("mae", "r2", "personalised_mae"))
    assert (mae.unit, mae.less_is_better, with_sign(quantity_name(mae), mae)) == ("number", True, "mae")
    assert (r2.unit, r2.less_is_better) == ("number", False)
    assert (quantity_name(own), own.less_is_better) == ("personalised mae", True)


def test_perplexity_is_the_exponential_of_the_cross_entropy(tmp_path: Path) -> None:
    run = simulated({**SMALL, "lr": 0.5}, tmp_path)
    stored = read_run(run)
    assert stored is not None
    losses = dict(stored.curve("loss"))
    curve = stored.curve(parse_metric("final of perplexity").quantity)
    assert dict(curve) == pytest.approx({number: math.exp(loss) for number, loss in losses.items()}, rel=1e-12)
    assert stored.summary["perplexity"] == curve[-1][1] < curve[0][1]
    found = read_off(parse_metric("final of perplexity"), curve, ended=True)
    assert found is not None and found.value == curve[-1][1]
    assert parse_metric("best of perplexity").less_is_better


def test_perplexity_of_any_loss_is_a_number_and_of_no_cross_entropy_there_is_none(tmp_path: Path) -> None:
    assert perplexity(1e9) == math.inf and math.isnan(perplexity(math.nan))
    assert [perplexity(loss) for loss in (7.5, 100.0, 700.0)] == [math.exp(loss) for loss in (7.5, 100.0, 700.0)]
    stored = read_run(simulated({**SMALL, "loss": "mse", "partition": "IID"}, tmp_path))
    assert stored is not None
    assert stored.summary["perplexity"] is None and not stored.curve("perplexity")


@pytest.mark.slow
def test_results_draw_and_list_a_regression(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for lr in (0.01, 0.03):
        simulated({**SMALL, "loss": "mse", "partition": "IID", "lr": lr, "name": f"lr={lr}"}, tmp_path / "sweep")
    capsys.readouterr()
    assert results([str(tmp_path / "sweep"), "--metric", "final of mae"]) == 0
    lines = capsys.readouterr().out.splitlines()
    (head,) = (line for line in lines if "final of mae" in line and "MB up" in line)
    assert "%" not in head and "best" not in head
    assert [line.split()[0] for line in lines if " *  " in line] == ["0.03"]
