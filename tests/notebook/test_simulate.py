"""simulate() with what a notebook has: arrays, classes, objects and callbacks."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial, wraps
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL, numbers, one_thread
from sklearn.datasets import load_digits
from torch import Tensor, nn

import fl_ddp
from fl_ddp.api import Arrays, Dataset, FedAvg, Leaves, NonNegative, Record, Tensors
from fl_ddp.datasets.digits import Digits
from fl_ddp.errors import ConfigError
from fl_ddp.methods.fedper import FedPer
from fl_ddp.methods.fedprox import FedProx
from fl_ddp.notebook.result import Result
from fl_ddp.optimizers.adam import Adam
from fl_ddp.partitions.iid import IID

SHARED = {key: value for key, value in SMALL.items() if key not in ("data", "model.hidden", "name")}
CENTRES = np.random.default_rng(5).normal(size=(3, 6))


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One thread."""
    with one_thread():
        yield


def digits() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Small images, as people load them."""
    x, y = load_digits(return_X_y=True)
    return x[:700] / 16, y[:700], x[700:900] / 16, y[700:900]


class Net(nn.Module):
    """A network of a user's."""

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(64, 12), nn.Linear(12, num_classes)
        self.middle: Tensor
        self.register_buffer("middle", torch.full((1,), 0.5))

    def forward(self, x: Tensor) -> Tensor:
        """Logits."""
        logits: Tensor = self.head(torch.relu(self.body(x.flatten(1) - self.middle)))
        return logits


def made(num_classes: int) -> nn.Module:
    """A network by a function."""
    return Net(num_classes)


@dataclass(frozen=True)
class Held(FedAvg):
    """FedProx by hand."""

    mu: NonNegative = 0.01

    def penalty(self, theta: Leaves | Tensor, server: Tensors, mine: Tensors) -> Tensor:
        """Of one leaf."""
        assert isinstance(theta, Tensor)
        return self.mu / 2 * (theta - server["theta"]).square().sum()


@dataclass(frozen=True)
class Clouds(Dataset):
    """Points around centres."""

    spread: NonNegative = 1.0

    def read(self) -> Arrays:
        """Drawn anew, always alike."""
        y = np.arange(360) % 3
        x = (CENTRES[y] + self.spread * np.random.default_rng(1).normal(size=(360, 6))).astype(np.float32)
        return Arrays(x[:240], y[:240], x[240:], y[240:], ("a", "b", "c"))


def folder(result: Result) -> Path:
    """Of a run."""
    return Path(str(result["folder"]))


def test_arrays_are_the_same_file_to_the_last_bit(tmp_path: Path) -> None:
    x, y, x_test, y_test = digits()
    np.savez(tmp_path / "own.npz", x_train=x, y_train=y, x_test=x_test, y_test=y_test)
    ours = {**SHARED, "model.hidden": 16}
    by_file = fl_ddp.simulate({**ours, "data": str(tmp_path / "own.npz"), "out": str(tmp_path / "a")})
    by_arrays = fl_ddp.simulate(ours, data=(x, y, x_test, y_test), out=str(tmp_path / "b"))
    tensors = (torch.from_numpy(x), torch.from_numpy(y), torch.from_numpy(x_test), y_test.tolist())
    by_tensors = fl_ddp.simulate(ours, data=tensors, out=str(tmp_path / "b"))
    assert numbers(folder(by_file)) == numbers(folder(by_arrays)) == numbers(folder(by_tensors))
    assert len(list((tmp_path / "b" / "arrays").glob("*.npz"))) == 1, "the same arrays are kept once"


@pytest.mark.slow
def test_a_run_on_arrays_goes_on_by_its_folder_alone(tmp_path: Path) -> None:
    whole = fl_ddp.simulate(SHARED, data=digits(), out=str(tmp_path / "whole"))
    part = fl_ddp.simulate(SHARED, data=digits(), out=str(tmp_path / "part"), rounds=1)
    gone_on = fl_ddp.simulate({"resume": str(folder(part)), "rounds": SHARED["rounds"]})
    assert numbers(folder(gone_on)) == numbers(folder(whole))
    x, y, x_test, y_test = digits()
    fl_ddp.simulate(resume=str(folder(part)), data=(x, y, x_test, y_test))
    with pytest.raises(ConfigError, match=r"data: is not what .* began with; accepted: the same, or none"):
        fl_ddp.simulate(resume=str(folder(part)), data=(x / 2, y, x_test, y_test))


def test_options_beside_arrays_are_of_the_arrays(tmp_path: Path) -> None:
    plain = fl_ddp.simulate(SHARED, data=digits(), out=str(tmp_path))
    scaled = fl_ddp.simulate({**SHARED, "data.merge": True, "local_test": 0.2}, data=digits(), out=str(tmp_path))
    assert numbers(folder(plain)) != numbers(folder(scaled))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (
            (1, 2),
            "data: 2 arrays; accepted: (x, y, x_test, y_test), torch's data sets (train, test), "
            "also in pairs or by name, a Dataset of fl_ddp.api, or a name",
        ),
        (([None], [1], [[1.0]], [1]), "data: x_train: list is no array of numbers"),
        (
            (torch.eye(4).to_sparse(), [0, 1, 0, 1], torch.eye(4), [0, 1, 0, 1]),
            "data: x_train: float32 [4, 4] that numpy cannot take; accepted: a numpy array or a dense tensor",
        ),
        ((np.zeros((4, 2)), 3, np.zeros((4, 2)), [0, 1, 0, 1]), "data: y_train: int is no array of numbers or words"),
        (
            (np.full((4, 2), np.nan), [0, 1, 0, 1], np.zeros((4, 2)), [0, 1, 0, 1]),
            "data: x_train: sample 0 is not finite (NaN or infinity)",
        ),
        (
            (np.zeros((4, 2)), [0, 1, 0], np.zeros((4, 2)), [0, 1, 0, 1]),
            "data: y_train: 3 labels do not fit the 4 samples of data: x_train",
        ),
    ],
)
def test_what_are_no_arrays_is_told(arrays: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        fl_ddp.simulate(SHARED, data=arrays, out=str(tmp_path))
    assert str(error.value) == message
    assert not any(tmp_path.iterdir())


def test_objects_and_classes_are_what_their_names_and_options_are(tmp_path: Path) -> None:
    ours = {**SHARED, "rounds": 2}
    named = fl_ddp.simulate(
        {
            **ours, "data": "digits", "data.normalize": True, "partition": "IID", "method": "FedProx", "method.mu": 0.3,
            "optimizer": "Adam", "optimizer.betas": [0.8, 0.9], "momentum": 0, "out": str(tmp_path / "a"),
        }
    )  # fmt: skip
    given = fl_ddp.simulate(
        {**ours, "momentum": 0}, data=Digits(normalize=True), partition=IID, method=FedProx(mu=0.3),
        optimizer=Adam(betas=(0.8, 0.9)), out=str(tmp_path / "b"),
    )  # fmt: skip
    assert numbers(folder(named)) == numbers(folder(given))


@pytest.mark.slow
def test_a_users_method_and_data_are_objects_of_this_file(tmp_path: Path) -> None:
    ours = {**SHARED, "model.hidden": 8, "rounds": 2}
    own = fl_ddp.simulate(ours, data=Clouds(spread=2.0), method=Held(mu=0.5), out=str(tmp_path / "a"))
    fedprox = {**ours, "method.mu": 0.5}
    shipped = fl_ddp.simulate(fedprox, data=Clouds(spread=2.0), method="FedProx", out=str(tmp_path / "b"))
    other = fl_ddp.simulate(ours, data=Clouds, method={"name": Held, "mu": 0.5}, out=str(tmp_path / "c"))
    assert numbers(folder(own)) == numbers(folder(shipped)) != numbers(folder(other))


def test_a_method_without_a_model_says_so() -> None:
    assert FedPer() == FedPer()
    with pytest.raises(AttributeError, match=r"no model\.head before fl_ddp\.simulate\(method=\.\.\.\) has given"):
        FedPer().init_client()


def test_a_module_is_where_the_run_begins_and_stays_as_it_is(tmp_path: Path) -> None:
    net = Net()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    untrained = fl_ddp.simulate(SHARED, data=digits(), model=net, rounds=0, out=str(tmp_path / "zero"))
    with torch.no_grad():
        x_test, y_test = (torch.from_numpy(each) for each in digits()[2:])
        right = (net(x_test.float()).argmax(1) == y_test).double().mean()
    assert untrained["accuracy"] == pytest.approx(float(right), abs=1e-12)
    trained = fl_ddp.simulate(SHARED, data=digits(), model=net, out=str(tmp_path / "run"))
    assert all(torch.equal(before[name], tensor) for name, tensor in net.state_dict().items())
    assert trained["parameters_sha256"] != untrained["parameters_sha256"]
    seeded = fl_ddp.simulate(SHARED, data=digits(), model=net, rounds=0, seed=9, out=str(tmp_path / "seed"))
    assert seeded["parameters_sha256"] == untrained["parameters_sha256"]
    by_class = fl_ddp.simulate(SHARED, data=digits(), model=Net, rounds=0, out=str(tmp_path / "class"))
    assert by_class["parameters_sha256"] != untrained["parameters_sha256"]


@pytest.mark.slow
def test_a_run_of_a_module_goes_on_with_that_module_alone(tmp_path: Path) -> None:
    net, other = Net(), Net()
    whole = fl_ddp.simulate(SHARED, data=digits(), model=net, out=str(tmp_path / "whole"))
    part = fl_ddp.simulate(SHARED, data=digits(), model=net, rounds=1, out=str(tmp_path / "part"))
    run = folder(part)
    with pytest.raises(
        ConfigError, match=r"--model: was a Net of a notebook, .* accepted: fl_ddp.simulate\(\.\.\., model="
    ):
        fl_ddp.simulate(resume=str(run), rounds=3)
    with pytest.raises(ConfigError, match=r"^model\.sha256: .* is not .*; with --resume only"):
        fl_ddp.simulate(resume=str(run), rounds=3, model=other)
    assert numbers(folder(fl_ddp.simulate(resume=str(run), rounds=3, model=net))) == numbers(folder(whole))


@pytest.mark.slow
def test_a_module_may_be_given_other_norms(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 10))
    group = fl_ddp.simulate(
        {**SHARED, "model.norm": "group"}, data=digits(), model=net, rounds=1, out=str(tmp_path / "a")
    )
    batch = fl_ddp.simulate(SHARED, data=digits(), model=net, rounds=1, out=str(tmp_path / "b"))
    assert group["parameters_sha256"] != batch["parameters_sha256"]
    assert isinstance(net[2], nn.BatchNorm1d)


def test_what_lies_in_a_function_is_refused(tmp_path: Path) -> None:
    class Inner(Net):
        """Nothing finds it."""

    with pytest.raises(
        ConfigError, match=r"^model: .*Inner lies in a function or another class, .* a class at the top"
    ):
        fl_ddp.simulate(SHARED, model=Inner, out=str(tmp_path))


def test_callbacks_see_each_rounds_record_and_may_stop(tmp_path: Path) -> None:
    seen: list[Record] = []
    whole = fl_ddp.simulate(SMALL, rounds=4, eval_every=2, out=str(tmp_path / "whole"), callbacks=[seen.append])
    assert [record.round for record in seen] == [1, 2, 3, 4]
    assert [record.accuracy is None for record in seen] == [True, False, True, False]
    assert seen[-1].accuracy == whole["accuracy"]

    def enough(record: Record) -> bool:
        return record.round == 3

    ours = {**SMALL, "rounds": 4, "eval_every": 2, "out": str(tmp_path / "part")}
    part = fl_ddp.simulate(ours, callbacks=[seen.append, enough])
    assert part["rounds"] == 3 and part["stopped"] == "a callback returned True"
    third = fl_ddp.simulate(SMALL, rounds=3, out=str(tmp_path / "third"))
    assert part["accuracy"] == third["accuracy"] != seen[1].accuracy, "what it ends with is evaluated"
    assert part["running_mean_accuracy"] == pytest.approx((seen[1].accuracy + part["accuracy"]) / 2), "and counts"
    gone_on = fl_ddp.simulate(resume=str(folder(part)))
    assert numbers(folder(gone_on)) == numbers(folder(whole))


@pytest.mark.parametrize("kind", [np.bool_, np.array, torch.tensor])
def test_numpys_and_torchs_true_stop_and_one_callback_needs_no_list(tmp_path: Path, kind: type) -> None:
    done = fl_ddp.simulate(SMALL, out=str(tmp_path / "a"), callbacks=lambda record: kind(record.round == 2))  # type: ignore[arg-type]
    assert done["rounds"] == 2
    with pytest.raises(ConfigError, match=r"^callbacks: 3 cannot be called; accepted: functions of a Record$"):
        fl_ddp.simulate(SMALL, out=str(tmp_path / "b"), callbacks=[3])  # type: ignore[list-item]
    assert not (tmp_path / "b").exists()


def test_callbacks_see_the_weights_after_each_round_and_cannot_change_them(tmp_path: Path) -> None:
    seen: list[tuple[int, Tensors]] = []

    def look(record: Record, weights: Tensors) -> None:
        seen.append((record.round, {name: each.clone() for name, each in weights.items()}))
        for each in weights.values():
            each.fill_(7)

    watched = fl_ddp.simulate(SHARED, data=digits(), model=Net, out=str(tmp_path / "a"), callbacks=[look, look])
    plain = fl_ddp.simulate(SHARED, data=digits(), model=Net, out=str(tmp_path / "b"))
    assert numbers(folder(watched)) == numbers(folder(plain))
    assert [index for index, _ in seen] == [1, 1, 2, 2, 3, 3]
    saved = plain.weights
    for (_, first), (_, second) in zip(seen[::2], seen[1::2], strict=True):
        assert first.keys() == second.keys() == saved.keys() == Net().state_dict().keys()
        assert all(torch.equal(first[name], second[name]) for name in saved), "each has its own"
    assert all(torch.equal(seen[-1][1][name], each) for name, each in saved.items())
    assert not torch.equal(seen[0][1]["head.weight"], saved["head.weight"])
    Net().load_state_dict(seen[0][1])


def test_callbacks_have_weights_where_they_ask_for_them_alone(tmp_path: Path) -> None:
    """Not for an option of their own with that name, nor for a function that they wrap."""
    seen: list[object] = []

    def own(record: Record, weights: object = (0.5, 0.5)) -> None:
        seen.append(weights)

    def asking(record: Record, *, weights: object) -> None:
        seen.append(weights)

    @wraps(asking)
    def logged(record: Record, **given: object) -> None:
        seen.append(given)

    callbacks: list[Callable[..., object]] = [own, partial(asking, weights="given"), logged, asking, seen.append]
    fl_ddp.simulate({**SMALL, "rounds": 1}, out=str(tmp_path), callbacks=callbacks)
    assert seen[:3] == [(0.5, 0.5), "given", {}]
    assert isinstance(seen[3], dict) and isinstance(seen[4], Record)


def test_callbacks_that_cannot_be_called_so_are_refused(tmp_path: Path) -> None:
    def wanting(record: Record, theta: Tensor) -> None:
        raise AssertionError

    said = r"wanting\(record: .*\) -> .* cannot be called so"
    message = rf"{said}; accepted: functions \(record\) or \(record, weights\), by that name"
    with pytest.raises(ConfigError, match=f"^callbacks: {message}$"):
        fl_ddp.simulate(SMALL, out=str(tmp_path / "a"), callbacks=[wanting])
    assert not (tmp_path / "a").exists()


@pytest.mark.slow
def test_numbers_of_numpys_are_numbers(tmp_path: Path) -> None:
    ours = {**SHARED, "rounds": 1}
    given = fl_ddp.simulate(
        ours,
        data="digits",
        method=FedProx(mu=np.float64(0.3)),
        lr=np.float64(0.2),
        clients=np.int64(12),
        out=str(tmp_path / "a"),
    )
    plain = fl_ddp.simulate(ours, data="digits", method=FedProx(mu=0.3), lr=0.2, clients=12, out=str(tmp_path / "b"))
    assert numbers(folder(given)) == numbers(folder(plain))


def test_a_function_makes_a_model_and_layers_without_sizes_are_refused(tmp_path: Path) -> None:
    done = fl_ddp.simulate(SHARED, data=digits(), model=made, rounds=0, out=str(tmp_path))
    assert done["parameters_sha256"]
    with pytest.raises(ConfigError, match="LazyLinear"):
        fl_ddp.simulate(SHARED, data=digits(), model=nn.LazyLinear(2), out=str(tmp_path / "lazy"))


@pytest.mark.slow
def test_arrays_in_hand_take_the_place_of_the_file_that_is_gone(tmp_path: Path) -> None:
    part = fl_ddp.simulate(SHARED, data=digits(), out=str(tmp_path), rounds=1)
    for file in (tmp_path / "arrays").glob("*.npz"):
        file.unlink()
    assert fl_ddp.simulate(resume=str(folder(part)), data=digits(), rounds=2)["rounds"] == 2


def test_other_ranks_than_the_first_have_no_history() -> None:
    assert Result().history == []


def test_only_true_stops(tmp_path: Path) -> None:
    others = ("yes", 1, None, torch.ones(()), torch.ones(2, dtype=torch.bool), np.ones(1))
    done = fl_ddp.simulate(SMALL, out=str(tmp_path), callbacks=[lambda record, each=each: each for each in others])
    assert done["rounds"] == SMALL["rounds"]


@pytest.mark.slow
def test_an_error_of_a_callback_is_the_users_and_nothing_is_lost(tmp_path: Path) -> None:
    def broken(record: Record) -> None:
        if record.round == 2:
            raise KeyError("accuracies")

    with pytest.raises(KeyError, match="accuracies"):
        fl_ddp.simulate(SMALL, out=str(tmp_path / "part"), callbacks=[broken])
    gone_on = fl_ddp.simulate(resume=str(tmp_path / "part" / "run"))
    whole = fl_ddp.simulate(SMALL, out=str(tmp_path / "whole"))
    assert numbers(folder(gone_on)) == numbers(folder(whole))


def test_history_is_metrics_csv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    done = fl_ddp.simulate(SMALL, out=str(tmp_path), eval_every=2)
    with (folder(done) / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    history = done.history
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in history] == rows
    assert [row["round"] for row in history] == [1, 2, 3] and history[0]["accuracy"] is None
    assert history[-1]["accuracy"] == done["accuracy"]


def test_history_is_a_frame_where_pandas_is(tmp_path: Path) -> None:
    done = fl_ddp.simulate(SMALL, out=str(tmp_path), eval_every=2)
    frame = done.history
    with (folder(done) / "metrics.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(frame.columns) == list(rows[0]) and len(frame) == len(rows)
    assert frame["accuracy"].isna().tolist() == [True, False, False]
    assert [str(value) for value in frame["train_loss"]] == [row["train_loss"] for row in rows]


def test_a_config_file_takes_options_beside_it(tmp_path: Path) -> None:
    (tmp_path / "it.yaml").write_text(json.dumps({**SHARED, "data": "digits", "rounds": 5}))
    done = fl_ddp.simulate(tmp_path / "it.yaml", rounds=1, out=str(tmp_path / "runs"))
    assert done["rounds"] == 1 and done["seed"] == 0
