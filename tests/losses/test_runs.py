"""Runs whose targets are numbers: closed forms, what they leave, the same bits, and what they refuse."""

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
from fl_ddp.errors import ConfigError, RunError

CONFORMANCE = ("lanes", "padding", "order", "again", "shapes", "intact", "ranks", "resume")
LINEAR = """
from torch import Tensor, float64, nn

class Linear(nn.Module):
    def __init__(self, *, in_shape, num_classes):
        super().__init__()
        self.of = nn.Linear(in_shape[0], num_classes, bias=False, dtype=float64)
        self.of.weight.data.zero_()

    def forward(self, x: Tensor) -> Tensor:
        return self.of(x)
"""
REGRESSION = {**SMALL, "loss": "mse", "partition": "Quantity", "lr": 0.02, "momentum": 0.0}

Array = npt.NDArray[np.float64]


def write(folder: Path, y: npt.NDArray[np.generic], **more: object) -> str:
    """Digits with other targets; the last 360 of them are the test set."""
    x = load_digits().data.astype(np.float32) / 16
    arrays = {"x_train": x[:-360], "y_train": y[:-360], "x_test": x[-360:], "y_test": y[-360:], **more}
    np.savez(folder / "own.npz", **arrays)
    return str(folder / "own.npz")


def rows_of(run: Path, file: str = "metrics.csv") -> list[dict[str, str]]:
    with (run / file).open(newline="") as table:
        return list(csv.DictReader(table))


def refused(settings: dict[str, object], folder: Path) -> str:
    with pytest.raises(ConfigError) as error:
        simulated(settings, folder)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_full_batches_of_a_linear_layer_are_gradient_descent_on_least_squares(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(40, 6)).astype(np.float32), rng.normal(size=(40, 3)).astype(np.float32)
    np.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x[:9], y_test=y[:9])
    (tmp_path / "linear.py").write_text(LINEAR)
    settings = {
        "data": str(tmp_path / "own.npz"), "model": f"{tmp_path}/linear.py:Linear", "partition": "IID", "loss": "mse",
        "clients": 2, "batch_size": 20, "local_steps": 3, "rounds": 4, "lr": 0.05,
        "compile": False, "figures": False, "device": "cpu",
        "name": "run",
    }  # fmt: skip
    run = simulated(settings, tmp_path)
    parts: list[list[int]] = json.loads((run / "partition.json").read_text())["clients"]
    w: Array = np.zeros((6, 3))
    for _ in range(4):
        ends = []
        for part in parts:
            own, a, b = w, x[part].astype(np.float64), y[part].astype(np.float64)
            for _ in range(3):
                own = own - 0.05 * 2 / (20 * 3) * a.T @ (a @ own - b)
            ends.append(own)
        w = (ends[0] + ends[1]) / 2
    found = load_file(run / "model.safetensors")["of.weight"]
    np.testing.assert_allclose(found, w.T, rtol=1e-12, atol=1e-15)
    gap = x[:9].astype(np.float64) @ w - y[:9]
    last = rows_of(run)[-1]
    assert float(last["loss"]) == pytest.approx((gap**2).mean(), rel=1e-12)
    assert float(last["mae"]) == pytest.approx(np.abs(gap).mean(), rel=1e-12)


def test_a_regression_leaves_its_own_columns_and_no_accuracies(tmp_path: Path) -> None:
    run = simulated({**REGRESSION, "local_test": 0.2, "personalise": "all", "keep_checkpoints": 1}, tmp_path)
    columns = [name for name in rows_of(run)[0] if not name.startswith("time")]
    assert columns == [
        "round", "train_loss", "cohort", "traffic_up_bytes", "traffic_down_bytes", "mae", "r2", "loss", "initial_mae",
        "personalised_mae", "initial_mae_cohort", "personalised_mae_all",
    ]  # fmt: skip
    assert list(rows_of(run, "clients.csv")[0])[-4:] == ["received_mae", "own_mae", "received_loss", "own_loss"]
    summary = json.loads((run / "summary.json").read_text())
    last = rows_of(run)[-1]
    for name in ("mae", "r2", "loss", "initial_mae", "personalised_mae", "personalised_mae_all"):
        assert summary[name] == float(last[name]) > 0
    assert summary["accuracy"] is None and "initial_accuracy" not in summary
    assert {name: 1 for name in json.loads((run / "partition.json").read_text())["counts"][0]} == {"samples": 1}


def test_means_over_clients_are_of_their_own_errors(tmp_path: Path) -> None:
    run = simulated({**REGRESSION, "local_test": 0.2, "personalise": "all"}, tmp_path)
    for row in rows_of(run):
        here = [each for each in rows_of(run, "clients.csv") if each["round"] == row["round"] and each["own_mae"]]
        for column, name in (("received_mae", "initial_mae"), ("own_mae", "personalised_mae_all")):
            assert np.mean([float(each[column]) for each in here]) == pytest.approx(float(row[name]), rel=1e-12)


def test_the_best_checkpoint_has_the_least_loss(tmp_path: Path) -> None:
    run = simulated({**REGRESSION, "rounds": 5, "lr": 0.3, "momentum": 0.5, "keep_checkpoints": 9}, tmp_path)
    losses = [float(row["loss"]) for row in rows_of(run)]
    best = f"round_{int(np.argmin(losses)) + 1:06d}"
    assert (run / "checkpoints" / "best").read_text().strip() == best
    assert len(set(losses)) == 5 and best != "round_000001"


def test_whole_numbers_are_targets_as_they_are(tmp_path: Path) -> None:
    prices = load_digits().target.astype(np.int64) - 5_000
    run = simulated({**REGRESSION, "data": write(tmp_path, prices), "rounds": 0}, tmp_path)
    assert float(rows_of(run)[0]["mae"]) == pytest.approx(4995.5, abs=5)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["FedAvg", "FedFomo"])
def test_a_regression_has_the_same_bits_wherever_it_runs(method: str, tmp_path: Path) -> None:
    own = {"loss": "mse", "partition": "Quantity", "forgetting_every": 0, "lr": 0.02}
    with Judge() as judge:
        found = list(judge.findings(Case(method, {"method": method, **own}, tmp_path), CONFORMANCE))
    assert [each for each in found if each.verdict != "holds"] == []


NO = "and --loss mse has none"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"partition": "Dirichlet"},
            f"--partition: Dirichlet divides by class, {NO}; accepted: IID, Quantity, Natural or FromFile",
        ),
        ({"stream": "Permuted"}, f"--stream: Permuted is of classes, {NO}; accepted: Static"),
        (
            {"method": "FedNTD"},
            f"--method: FedNTD reckons with classes or their probabilities, {NO}; accepted: another method",
        ),
        (
            {"method": "FedKA"},
            f"--method: FedKA reckons with classes or their probabilities, {NO}; accepted: another method",
        ),
        (
            {"method": "FedCurv", "method.kind": "mc"},
            f"--method: FedCurv reckons with classes or their probabilities, {NO}; accepted: --method.kind empirical",
        ),
        ({"label_smoothing": 0.1}, "--label_smoothing: 0.1 is of classes, which --loss mse has not"),
        ({"forgetting_every": 2}, "--forgetting_every: 2 is of classes, which --loss mse has not"),
        ({"class_reduction": "0,1,2,3"}, "--class_reduction: 0,1,2,3 is of classes, which --loss mse has not"),
        ({"targets": [0.5, 0.9]}, "--targets: 0.5,0.9 is of classes, which --loss mse has not"),
        ({"loss": "hinge"}, "loss: hinge is unknown; accepted: cross_entropy or mse or bce"),
    ],
)
def test_what_needs_classes_is_refused_in_one_line(options: dict[str, object], message: str, tmp_path: Path) -> None:
    assert refused({**REGRESSION, **options}, tmp_path) == message
    assert not (tmp_path / "run").exists()


def test_targets_that_are_no_numbers_are_refused_with_their_place(tmp_path: Path) -> None:
    y = load_digits().target.astype(np.float64)
    wide = np.stack([y, y], 1)
    file, seventh = tmp_path / "own.npz", np.arange(360) == 7
    infinite = f"{file}: y_test: the target of sample 7 is not finite (NaN or infinity)"
    unlike = (
        "float32 of shape [360, 2] are no targets of 1 numbers; accepted: numbers [N] or [N, C], alike in both sets"
    )
    cases = (
        (wide[-360:], f"{file}: y_test: {unlike}"),
        (np.where(seventh, np.nan, 0), infinite),
        (np.where(seventh, 1e300, 0), infinite),
        (y[:5], f"{file}: y_test: 5 labels do not fit the 360 samples of {file}: x_test"),
    )
    for y_test, message in cases:
        assert refused({**REGRESSION, "data": write(tmp_path, y, y_test=y_test)}, tmp_path) == message
    wanted = "accepted: whole numbers from 0 up, [N]; --loss mse takes any numbers, --loss bce [N, C] of 0 and 1"
    line = refused({**SMALL, "data": write(tmp_path, y)}, tmp_path)
    assert line == f"{file}: y_train: float64 of shape [1437] are no labels; {wanted}"


def test_a_resumed_run_refuses_other_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An older run's, whose checkpoint knows the tasks alone."""
    y = load_digits().target.astype(np.float32)
    monkeypatch.setattr("fl_ddp.run_files.recorded", lambda worlds, _: {"tasks_sha256": worlds.sha256})
    run = simulated({**REGRESSION, "data": write(tmp_path, y), "rounds": 1}, tmp_path)
    assert "data_sha256" not in next(run.rglob("state.json")).read_text()
    monkeypatch.undo()
    write(tmp_path, y + 1)
    made = "the run was made with other samples, inputs or labels in its tasks, or began with other weights"
    message = f"{made}; restore its files"
    assert refused({"resume": str(run), "rounds": 2}, tmp_path) == f"{run}: {message}"


@pytest.mark.parametrize(("loss", "helps"), [("mse", True), ("cross_entropy", False)])
def test_scaled_targets_are_advised_where_numbers_diverge(tmp_path: Path, loss: str, helps: bool) -> None:
    with pytest.raises(RunError, match=r"a smaller --lr usually helps") as error:
        simulated({**REGRESSION, "loss": loss, "lr": 1e20}, tmp_path)
    assert (", so do targets scaled to about 1 (--loss mse)" in str(error.value)) == helps
