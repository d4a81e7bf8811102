"""What simulate() makes of arrays, before a run begins."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from fl_ddp import simulate
from fl_ddp.config.yaml_file import to_yaml
from fl_ddp.errors import ConfigError
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fedfomo import FedFomo
from fl_ddp.notebook.asked import asked


@dataclass(frozen=True)
class OfSome(FedAvg):
    """Knows how many clients there are only if it is told."""

    num_clients: int | None = None


X, Y = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6) % 2


def test_options_beside_arrays_are_kept_with_their_file(tmp_path: Path) -> None:
    data = asked({"data.merge": True, "out": str(tmp_path)}, {"data": (X, Y, X, Y)}).config.data
    assert data.init_args["merge"] is True and Path(str(data.init_args["path"])).is_file()


def test_a_run_goes_on_with_its_own_arrays_alone(tmp_path: Path) -> None:
    begun = asked({"out": str(tmp_path)}, {"data": (X, Y, X, Y)}).config
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(to_yaml(begun))
    on = {"resume": str(tmp_path / "run")}
    assert asked(on, {"data": (X, Y, X, Y)}).config.data == begun.data
    with pytest.raises(ConfigError, match=r"data: is not what .*run began with; accepted: the same, or none"):
        asked(on, {"data": (X + 1, Y, X, Y)})


def test_numbers_and_arrays_of_numpys_are_taken_wherever_they_stand(tmp_path: Path) -> None:
    half, adam = np.float64(0.5), {"name": "Adam", "betas": (np.float64(0.8), np.float32(0.5))}
    config = asked({"out": str(tmp_path)}, {"targets": [half], "optimizer": adam, "lr": np.float64(0.1)}).config
    assert config.targets == (0.5,) and "betas: [0.8, 0.5]" in to_yaml(config).replace("\n  - ", " ")
    assert asked({"out": str(tmp_path)}, {"targets": np.array([0.25, 0.5])}).config.targets == (0.25, 0.5)


@pytest.mark.parametrize(
    "data",
    [
        ((X, Y), (X + 1, Y)),
        {"train": (X, Y), "test": [X + 1, Y]},
        {"y_test": Y, "x_test": X + 1, "y_train": Y, "x_train": X},
    ],
)
def test_arrays_in_pairs_and_by_name_are_the_four(tmp_path: Path, data: object) -> None:
    found, expected = (asked({"out": str(tmp_path)}, {"data": each}).config for each in (data, (X, Y, X + 1, Y)))
    assert found == expected


def test_an_open_file_of_arrays_is_what_it_holds(tmp_path: Path) -> None:
    """Names of classes and the samples' clients beside them, as Npz reads them."""
    beside = {"classes": np.array(["even", "odd"]), "client_train": Y, "client_test": Y, "unread": Y}
    np.savez(tmp_path / "some.npz", x_train=X, y_train=Y, x_test=X, y_test=Y, **beside)  # type: ignore[arg-type]
    with np.load(tmp_path / "some.npz") as file:
        kept = asked({"out": str(tmp_path)}, {"data": file}).config.data.init_args["path"]
    with np.load(str(kept)) as file:
        assert {*file.files} == {"x_train", "y_train", "x_test", "y_test", "classes", "client_train", "client_test"}
        assert file["classes"].tolist() == ["even", "odd"]


def test_arrays_by_other_names_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^data: arrays by the names x, y; accepted: \(x_train, y_train, x_test, "):
        asked({"out": str(tmp_path)}, {"data": {"x": X, "y": Y}})
    np.savez(tmp_path / "other.npz", x=np.array([{}], dtype=object))
    with (
        np.load(tmp_path / "other.npz") as file,
        pytest.raises(ConfigError, match=r"^data: arrays by the names x; acc"),
    ):
        asked({"out": str(tmp_path)}, {"data": file})
    splits = {"name": "HuggingFace", "path": ".", "train": "a", "test": "b"}
    assert asked({"out": str(tmp_path)}, {"data": splits}).config.data.init_args["train"] == "a"
    config = asked({"out": str(tmp_path)}, {"data": {"name": "MNIST", "mean": np.array([0.5])}}).config
    assert config.data.name == "MNIST"


FOUR = {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y}


def test_what_lies_beside_arrays_is_taken_as_they_are(tmp_path: Path) -> None:
    """Also every second one, names as pandas has them, and nothing."""
    names = np.array(["even", "odd"], dtype=object)
    beside = {"client_train": np.arange(12)[::2], "client_test": torch.arange(6), "classes": names}
    kept = asked({"out": str(tmp_path)}, {"data": {"train": (X, Y), "test": (X, Y), **beside}}).config.data.init_args
    with np.load(str(kept["path"])) as file:
        assert file["client_train"].tolist() == [0, 2, 4, 6, 8, 10] and file["classes"].tolist() == ["even", "odd"]
        assert file["client_test"].tolist() == [0, 1, 2, 3, 4, 5]
    nothing = {"classes": None, "client_train": None}
    assert asked({"out": str(tmp_path)}, {"data": FOUR | nothing}).config == (
        asked({"out": str(tmp_path)}, {"data": (X, Y, X, Y)}).config
    )


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ({"classes": np.array([{}, 1], dtype=object)}, "data: classes: ndarray is no array of numbers or words"),
        ({"classes": [[1], [1, 2]]}, "data: classes: list whose parts are not alike; accepted: an array"),
        ({"x_test": [[1], [1, 2]]}, "data: x_test: list whose parts are not alike; accepted: an array"),
    ],
)
def test_what_beside_arrays_is_none_is_told(tmp_path: Path, beside: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError) as told:
        asked({"out": str(tmp_path)}, {"data": FOUR | beside})
    assert str(told.value) == message


def test_a_file_of_arrays_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "some.npz", **FOUR | {"x_train": np.array([{}], dtype=object)})  # type: ignore[arg-type]
    with np.load(tmp_path / "some.npz") as file, pytest.raises(ConfigError, match=r"^data: x_train: cannot be read"):
        asked({"out": str(tmp_path)}, {"data": file})
    with pytest.raises(ConfigError, match=r"^data: x_train: cannot be read"):
        asked({"out": str(tmp_path)}, {"data": file})


def test_two_samples_of_a_list_are_no_pair(tmp_path: Path) -> None:
    samples = [(X[0], 0), (X[1], 1)]
    with pytest.raises(ConfigError, match=r"^data: 2 arrays; accepted: "):
        asked({"out": str(tmp_path)}, {"data": (samples, samples)})


class Own(torch.nn.Linear):
    """Two classes of X."""

    def __init__(self) -> None:
        super().__init__(2, 2)


@pytest.mark.parametrize("of_module", [True, False])
def test_weights_are_kept_as_the_file_that_init_reads(tmp_path: Path, of_module: bool) -> None:
    network = Own()
    init = network if of_module else network.state_dict()
    config = asked({"out": str(tmp_path)}, {"init": init}).config
    assert config.init is not None and Path(config.init).parent == tmp_path / "arrays"
    assert load_file(config.init)["weight"].equal(network.weight)
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(to_yaml(config))
    on = {"resume": str(tmp_path / "run")}
    assert asked(on, {"init": init}).config.init == config.init
    with pytest.raises(ConfigError, match=r"^init: is not what .*run began with; accepted: the same, or none"):
        asked(on, {"init": Own()})


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ({"weight": 1}, "'weight' is int without numbers"),
        ({"weight": torch.eye(2).to_sparse()}, "'weight' is Tensor without numbers"),
        ({"weight": torch.ones(2, dtype=torch.complex64)}, r"'weight' is complex64 \[2\]; "),
        (torch.nn.Linear(2, 2, device="meta"), "'weight' is Tensor without numbers"),
        (torch.nn.LazyLinear(2), "'weight' is UninitializedParameter without numbers"),
    ],
)
def test_what_are_no_weights_is_told(tmp_path: Path, init: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^init: {message}.*accepted: dense tensors by name"):
        asked({"out": str(tmp_path)}, {"init": init})


def test_a_run_begins_with_weights_in_memory(tmp_path: Path) -> None:
    network, begin = Own(), Own()
    settings = {
        "clients": 2,
        "partition": "IID",
        "cohort": None,
        "rounds": 0,
        "out": str(tmp_path),
        "compile": False,
        "figures": False,
    }
    result = simulate(settings, data=(X, Y, X, Y), model=network, init=begin)
    assert result.weights["weight"].equal(begin.weight) and not begin.weight.equal(network.weight)


@pytest.mark.parametrize(
    ("option", "given", "rows"),
    [
        ("client_lr", [0.5, 2], "client,factor\n0,0.5\n1,2\n"),
        ("client_work", {1: np.float64(0.5)}, "client,factor\n1,0.5\n"),
        ("client_work", torch.tensor([0.5, 2.0]), "client,factor\n0,0.5\n1,2.0\n"),
        ("availability", [(0, 1, 3), (np.int64(1), 2, None)], "client,from,to\n0,1,3\n1,2,\n"),
        ("class_reduction", ((0, "a, b", 2, 5),), 'client,class,round,count\n0,"a, b",2,5\n'),
    ],
)
def test_rows_are_kept_as_the_file_that_their_option_reads(
    tmp_path: Path, option: str, given: object, rows: str
) -> None:
    config = asked({"clients": 2, "out": str(tmp_path)}, {option: given}).config
    assert Path(getattr(config, option)).read_text() == rows


def test_a_run_has_the_factors_and_the_reach_of_memory(tmp_path: Path) -> None:
    settings = {
        "clients": 2,
        "partition": "IID",
        "cohort": None,
        "rounds": 2,
        "out": str(tmp_path),
        "compile": False,
        "figures": False,
    }
    told = {"data": (X, Y, X, Y), "client_lr": np.array([0.5, 2.0]), "availability": [(1, 2, None)]}
    result = simulate({**settings, **told}, model=(network := Own()))
    folder = Path(str(result["folder"]))
    assert (folder / "client_lr.csv").read_text() == "client,factor\n0,0.5\n1,2.0\n"
    assert (folder / "cohorts.csv").read_text().split() == ["round,client", "1,0", "2,0", "2,1"]
    again = simulate({**told, "resume": str(folder), "rounds": 3}, model=network)
    assert again["rounds"] == 3


@pytest.mark.parametrize("given", [[(0, 1)], [3], ["abc"], {0: 1}])
def test_what_are_no_rows_is_told(tmp_path: Path, given: object) -> None:
    with pytest.raises(ConfigError, match=r"^availability: .* is no row; accepted: rows client, from, to$"):
        asked({"out": str(tmp_path)}, {"availability": given})


def test_devices_and_types_of_torch_are_their_names(tmp_path: Path) -> None:
    config = asked({"out": str(tmp_path)}, {"device": torch.device("cpu"), "precision": torch.float32}).config
    assert (config.device, config.precision) == ("cpu", "float32")


def test_what_is_no_value_is_told_in_one_line(tmp_path: Path) -> None:
    weights = [torch.arange(2000.0) for _ in range(9)]
    with pytest.raises(ConfigError, match=r"^init: .*\.\.\. has the wrong type; accepted: ") as told:
        asked({"out": str(tmp_path)}, {"init": weights})
    assert "\n" not in str(told.value) and len(str(told.value)) < 300
    assert asked({"out": str(tmp_path)}, {"lr": torch.tensor(0.5)}).config.lr == 0.5


class Large(np.ndarray):
    """An array that takes long to be spelled."""

    def tolist(self) -> object:  # type: ignore[override]
        raise AssertionError("data are kept in a file")


def test_arrays_and_divisions_are_not_spelled(tmp_path: Path) -> None:
    given = {"data": (X.view(Large), Y.view(Large), X, Y), "partition": [np.arange(3).view(Large), np.arange(3, 6)]}
    assert asked({"out": str(tmp_path)}, given).config.clients == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"data": {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y, "normalize": True}},
            r"data: normalize beside arrays; accepted: classes, .*, and options by themselves: .*data.normalize",
        ),
        ({"data": {"x_train": X, "y_train": Y, "x_test": X, "y_test": Y, "client_tests": Y}}, "data: client_tests"),
        (
            {"clients": 4, "client_lr": [0.5, 2.0]},
            r"client_lr: 2 numbers, and there are 4 clients; accepted: a number of each client, or a mapping of those",
        ),
        (
            {"clients": 12, "method": FedFomo(num_clients=7)},
            "method: has num_clients 7, and there are 12 clients; accepted: as many; or without",
        ),
        ({"partition": {}}, "partition: is empty; accepted: a name with its options, or the sample indices"),
        ({"client_work": np.array(0.5)}, "client_work: 0.5 is one number; accepted: rows client, factor"),
        ({"availability": np.array(1)}, "availability: 1 is one number; accepted: rows client, from, to"),
    ],
)
def test_what_would_be_passed_over_is_refused(options: dict[str, object], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        asked({"out": str(tmp_path)}, options)


def test_a_few_clients_may_have_a_factor_by_their_number(tmp_path: Path) -> None:
    config = asked({"out": str(tmp_path)}, {"clients": 4, "client_lr": {2: 0.5}}).config
    assert Path(str(config.client_lr)).read_text().splitlines()[1:] == ["2,0.5"]


def test_a_number_of_clients_that_is_none_at_first_counts_where_it_is_given(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^method: has num_clients 7, and there are 12 clients"):
        asked({"clients": 12, "method": OfSome(num_clients=7), "out": str(tmp_path)}, {})
    asked({"clients": 12, "method": OfSome(), "out": str(tmp_path)}, {})


@pytest.mark.parametrize("method", [FedFomo(num_clients=12), FedFomo(), FedFomo, "FedFomo", FedAvg()])
def test_a_methods_object_may_have_the_number_of_clients_that_there_are(tmp_path: Path, method: object) -> None:
    asked({"clients": 12, "method": method, "out": str(tmp_path)}, {})
