"""Runs whose samples may have several labels: a closed form, what they leave, the same bits, and what they refuse."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from launching import SMALL, simulated
from safetensors.numpy import load_file
from sklearn.datasets import load_digits

from fl_ddp.check.candidate import Case
from fl_ddp.check.judge import Judge
from fl_ddp.errors import ConfigError
from launch.numbers.metric import parse_metric
from launch.run.stored import read_run

CONFORMANCE = ("lanes", "padding", "order", "again", "shapes", "intact", "ranks", "resume")
NAMES = ("even", "large", "round")
OPTIONS = {**SMALL, "loss": "bce", "partition": "Quantity", "lr": 1.0}


def write(folder: Path, **changed: npt.NDArray[np.generic]) -> str:
    """Digits that are even or not, 5 or more or not, and have a loop or not."""
    digits = load_digits()
    x, d = digits.data.astype(np.float32) / 16, digits.target
    y = np.stack([d % 2 == 0, d >= 5, np.isin(d, (0, 6, 8, 9))], 1)
    arrays = {"x_train": x[360:], "y_train": y[360:], "x_test": x[:360], "y_test": y[:360], "classes": np.array(NAMES)}
    np.savez(folder / "own.npz", **{**arrays, **changed})
    return str(folder / "own.npz")


def rows_of(run: Path) -> list[dict[str, str]]:
    with (run / "metrics.csv").open(newline="") as table:
        return list(csv.DictReader(table))


def refused(settings: dict[str, object], folder: Path) -> str:
    with pytest.raises(ConfigError) as error:
        simulated(settings, folder)
    return str(error.value)


def test_a_step_of_a_layer_of_zeros_is_known(tmp_path: Path) -> None:
    """Its logits are 0, so that the gradient is (1/2 - y)^T x / C, mean over the samples."""
    (tmp_path / "zero.py").write_text("""
from torch import nn

def zero(in_shape, num_classes):
    layer = nn.Linear(in_shape[0], num_classes, bias=False).double()
    layer.weight.data.zero_()
    return layer
""")
    data = write(tmp_path)
    settings = {
        "data": data, "model": f"{tmp_path}/zero.py:zero", "partition": "IID", "loss": "bce", "clients": 1, "rounds": 1,
        "batch_size": 2000, "lr": 0.3, "compile": False, "figures": False, "device": "cpu", "name": "run",
    }  # fmt: skip
    run = simulated(settings, tmp_path)
    with np.load(data) as arrays:
        x, y = arrays["x_train"].astype(np.float64), arrays["y_train"].astype(np.float64)
    expected = -0.3 * (0.5 - y).T @ x / 3 / len(x)
    np.testing.assert_allclose(load_file(run / "model.safetensors")["weight"], expected, rtol=1e-11, atol=1e-14)


def test_a_run_leaves_the_accuracy_of_each_label_and_its_measures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {**OPTIONS, "data": write(tmp_path), "local_test": 0.2, "rounds": 12, "targets": [0.6, 0.999]}
    run = simulated(settings, tmp_path)
    assert [name for name in rows_of(run)[0] if not name.startswith("time")] == [
        "round", "train_loss", "cohort", "traffic_up_bytes", "traffic_down_bytes", "accuracy", "running_mean_accuracy",
        "forgetting", "exact_match", "f1", "auc", "loss", "initial_accuracy", "personalised_accuracy",
        *(f"accuracy/{name}" for name in NAMES),
    ]  # fmt: skip
    last, summary = rows_of(run)[-1], json.loads((run / "summary.json").read_text())
    for name in ("accuracy", "exact_match", "f1", "auc", "loss", "personalised_accuracy"):
        assert summary[name] == float(last[name]) > 0, name
    assert float(last["auc"]) > float(last["accuracy"]) > float(last["exact_match"]) > 0.5
    assert list(summary["class_accuracy"]) == list(NAMES) and summary["confusion"] == []
    assert summary["rounds_to_target"]["accuracy"]["0.999"] is None
    assert np.mean([float(last[f"accuracy/{name}"]) for name in NAMES]) == pytest.approx(summary["accuracy"])
    table = capsys.readouterr().out
    assert "\nexact match  " in table and "\nf1  " in table and "\nauc  " in table and "accuracy per class" in table
    stored = read_run(run)
    assert stored is not None
    f1 = parse_metric("best of f1")
    assert (f1.unit, f1.less_is_better) == ("percent", False)
    assert [value for _, value in stored.curve(f1.quantity)] == [float(row["f1"]) for row in rows_of(run)]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["FedAvg", pytest.param("MOON", marks=pytest.mark.slow)])
def test_a_multi_label_run_has_the_same_bits_wherever_it_runs(method: str, tmp_path: Path) -> None:
    own = {"loss": "bce", "data": write(tmp_path), "partition": "Quantity", "forgetting_every": 0}
    with Judge() as judge:
        found = list(judge.findings(Case(method, {"method": method, **own}, tmp_path), CONFORMANCE))
    assert [each for each in found if each.verdict != "holds"] == []


def test_labels_of_one_axis_are_one_label(tmp_path: Path) -> None:
    d = load_digits().target
    data = write(tmp_path, y_train=d[360:] % 2, y_test=d[:360] % 2, classes=np.array(["even", "odd"]))
    summary = json.loads((simulated({**OPTIONS, "data": data}, tmp_path) / "summary.json").read_text())
    assert list(summary["class_accuracy"]) == ["0"] and summary["accuracy"] == summary["exact_match"] > 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"partition": "Shards"}, "--partition: Shards divides by class, and --loss bce has none; accepted: IID, "),
        ({"method": "FedRoD"}, "--method: FedRoD reckons with classes or their probabilities, and --loss bce has none"),
        ({"stream": "ClassGroups"}, "--stream: ClassGroups is of classes, and --loss bce has none; accepted: Static"),
        ({"label_smoothing": 0.1}, "--label_smoothing: 0.1 is of classes, which --loss bce has not"),
        ({"data": "digits"}, "--data Digits: y_train: sample 1 has [2.0]; accepted: 0 or 1"),
    ],
)
def test_what_several_labels_have_not_is_refused(options: dict[str, object], message: str, tmp_path: Path) -> None:
    line = refused({**OPTIONS, "data": write(tmp_path), **options}, tmp_path)
    assert line.startswith(message) and "\n" not in line


def test_anything_but_0_and_1_is_refused_with_its_place(tmp_path: Path) -> None:
    y = np.zeros((360, 3))
    y[7, 1] = 0.5
    message = "y_test: sample 7 has [0.0, 0.5, 0.0]; accepted: 0 or 1 for each label"
    assert refused({**OPTIONS, "data": write(tmp_path, y_test=y)}, tmp_path) == f"{tmp_path / 'own.npz'}: {message}"
