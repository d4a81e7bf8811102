"""The registry finds classes by being in a folder, by import path, or in a user's file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from torch import nn

from fl_ddp.config import registry
from fl_ddp.config.command_help import about_class
from fl_ddp.config.command_line import from_mapping, parse
from fl_ddp.config.settings import Choice
from fl_ddp.datasets.download import Downloadable
from fl_ddp.datasets.place import telling_root
from fl_ddp.errors import ConfigError

NET = """
from __future__ import annotations
import torch

class Net(torch.nn.Module):
    '''A net of one's own.'''

    def __init__(self, width: int = 4, depth: int = 1, num_classes: int = 10) -> None:
        super().__init__()
        if width < 1:
            raise ValueError("width must be positive")
        self.size = (width, depth, num_classes)

class WideNet(Net):
    def __init__(self, scale: float, **kwargs: int) -> None:
        super().__init__(**kwargs)
        self.scale = scale

class Plain(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()

def normed(width: int = 4, num_classes: int = 10) -> torch.nn.Module:
    '''A network made by a function.

    Args:
        width: of its layer.
    '''
    first, last = torch.nn.Linear(3, width), torch.nn.Linear(width, num_classes)
    return torch.nn.Sequential(first, torch.nn.BatchNorm1d(width), last)

def nothing(width: int = 4) -> int:
    return width
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with a user's file of networks."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_nets.py").write_text(NET)
    return tmp_path


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("data", {"Digits", "MNIST", "FashionMNIST", "EMNIST", "CIFAR10", "CIFAR100", "ImageFolder", "Npz"}),
        ("partition", {"IID", "Shards", "Blocks", "Dirichlet", "ClientDirichlet", "Quantity", "FromFile"}),
        ("model", {"MLP", "ResNet18", "ResNet50"}),
        ("method", {"FedAvg", "FedProx", "FedAvgM", "FedNova", "Scaffold", "FedDyn"}),
    ],
)
def test_classes_of_a_kind_are_found_by_being_there(kind: str, names: set[str]) -> None:
    assert names <= registry.known(kind).keys()


def test_parts_of_models_and_abstract_bases_are_not_offered() -> None:
    assert not {"Dataset", "NamedArrays", "Partition", "Module", "MaxPool", "Classifier"} & {
        name for kind in registry.KINDS for name in registry.known(kind)
    }


@pytest.mark.parametrize("name", ["FedProx", "fedprox", "FEDPROX", "fl_ddp.methods.fedprox.FedProx"])
def test_a_name_in_any_case_and_the_import_path_are_the_same_class(name: str) -> None:
    assert registry.class_path("method", name) == "fl_ddp.methods.fedprox.FedProx"


def test_an_unknown_name_lists_all_names_nearest_first() -> None:
    with pytest.raises(ConfigError) as error:
        registry.class_path("method", "FedPorx")
    message = str(error.value)
    assert message.startswith("--method: FedPorx is unknown; did you mean FedProx? known: FedProx, ")
    assert all(name in message for name in registry.known("method"))


@pytest.mark.parametrize(
    ("name", "here"), [("FedAdam", "FedOpt"), ("fedyogi", "FedOpt with --method.rule yogi"), ("EWC", "OnlineEWC")]
)
def test_a_method_that_has_another_name_here_is_found(name: str, here: str) -> None:
    with pytest.raises(ConfigError, match=f"^--method: {name} is unknown; it is {here} here; known: ") as error:
        registry.class_path("method", name)
    assert "did you mean" not in str(error.value)


def test_a_file_alone_is_answered_with_its_classes(folder: Path) -> None:
    (folder / "two.py").write_text("from fl_ddp.api import FedAvg\n\nclass A(FedAvg): pass\nclass B(FedAvg): pass\n")
    with pytest.raises(ConfigError, match=r"^--method: two.py is a file; accepted: two.py:A or two.py:B$"):
        registry.class_path("method", "two.py")
    with pytest.raises(ConfigError, match=r"^--data: two.py is a file; accepted: a class in one: two.py:MyClass$"):
        registry.class_path("data", "two.py")


@pytest.mark.parametrize("path", ["own_nets.Net", "own_nets:Net", "own_nets.py:Net", "./own_nets.py:Net"])
def test_a_class_in_a_file_of_the_current_directory_is_built_with_what_it_accepts(folder: Path, path: str) -> None:
    net = registry.build(Choice(registry.class_path("model", path), {"width": 8}), in_shape=(1, 28, 28), num_classes=3)
    assert net.size == (8, 1, 3)  # type: ignore[attr-defined]


def test_a_class_in_a_file_elsewhere_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    assert registry.load("model", "../own_nets.py:Net").__name__ == "Net"


def test_a_module_that_takes_nothing_gets_nothing(folder: Path) -> None:
    net = registry.build(Choice("own_nets.Plain"), in_shape=(1, 28, 28), num_classes=3)
    assert type(net).__name__ == "Plain"


def test_arguments_handed_on_to_the_parent_are_options_and_engine_arguments(folder: Path) -> None:
    owner = registry.load("model", "own_nets.WideNet")
    options = registry.options("model", owner)
    assert list(options.by_name) == ["scale", "width", "depth", "norm", "projection"]
    assert options.beside == {"norm", "projection"}
    net = registry.build(Choice("own_nets.WideNet", {"scale": 2.0, "depth": 5}), num_classes=3)
    assert net.size == (4, 5, 3)  # type: ignore[attr-defined]


def test_a_model_may_come_from_a_function(folder: Path) -> None:
    config = from_mapping({"model": "own_nets.normed", "model.width": 8})
    assert config.model == Choice("own_nets.normed", {"width": 8})
    net = registry.build(config.model, in_shape=(3,), num_classes=5)
    assert isinstance(net, nn.Sequential) and isinstance(net[1], nn.BatchNorm1d)
    assert [each.out_features for each in net if isinstance(each, nn.Linear)] == [8, 5]
    told = about_class("model", "own_nets.normed")
    assert told.startswith("normed: A network made by a function.") and "--model.width         of its layer [4]" in told
    with pytest.raises(ConfigError, match=r"--model\.widht: unknown option; did you mean --model\.width") as error:
        parse(["--model", "own_nets.normed", "--model.widht", "8"])
    assert "\n" not in str(error.value)


METHODS = """
from dataclasses import dataclass
from typing import ClassVar
from fl_ddp.api import FedAvg, NonNegative

class Bare(FedAvg):
    mu: NonNegative = 0.1
    nu = 0.1
    neutral = {}
    shared: ClassVar[float] = 0.1

    @property
    def half(self): return 0.5

@dataclass(frozen=True)
class Typed(Bare):
    rho = 0.1
    tau: NonNegative = 0.1

    def sigma(self): ...

class Sub(Bare): pass
"""
BARE = "Bare declares mu, an option once @dataclass(frozen=True) stands above it"


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("Bare --method.mu", BARE),
        ("Sub --method.mu", BARE),
        ("Bare --method.neutral", "Bare has weights, server_lr"),
        ("Bare --method.shared", "Bare has weights, server_lr"),
        ("Bare --method.half", "Bare has weights, server_lr"),
        ("Bare --method.__doc__", "Bare has weights, server_lr"),
        ("Bare --method.nu", "Bare sets nu, an option once it has a type, nu: float = ..., in a dataclass"),
        ("Typed --method.rho", "Typed sets rho, an option once it has a type, rho: float = ..., in a dataclass"),
        ("Typed --method.sigma", "Typed has weights, server_lr, tau"),
    ],
)
def test_what_a_class_declares_and_is_no_option_is_told(option: str, message: str, folder: Path) -> None:
    (folder / "own_methods.py").write_text(METHODS)
    with pytest.raises(ConfigError) as told:
        parse(["--method", *f"own_methods.py:{option} 1".split()])
    assert str(told.value).endswith(f"unknown option; {message}")
    with pytest.raises(ConfigError, match=r"--method.proxy: unknown option; FedAvg has weights, server_lr$"):
        parse(["--method", "FedAvg", "--method.proxy", "1"])
    assert parse(["--method", "own_methods.py:Typed", "--method.tau", "1"]).method.init_args["tau"] == 1


@pytest.mark.slow
def test_classes_of_a_script_are_told_of_like_those_of_a_file(tmp_path: Path) -> None:
    script = METHODS + "import fl_ddp\nfl_ddp.simulate(method=Bare, **{'method.mu': 1})\n"
    done = subprocess.run(
        [sys.executable, "-"], input=script, capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert done.returncode == 1 and done.stderr.strip().endswith(f"method.mu: unknown option; {BARE}")


def test_a_function_that_makes_no_model_is_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"--model nothing: gives int, which is no torch\.nn\.Module"):
        registry.build(from_mapping({"model": "own_nets.nothing"}).model, in_shape=(3,), num_classes=5)
    with pytest.raises(ConfigError, match=r"method: own_nets\.normed is unknown; own_nets has no class normed"):
        from_mapping({"method": "own_nets.normed"})


def test_a_class_of_a_script_that_is_not_this_one_is_told_of() -> None:
    with pytest.raises(ConfigError, match=r"has no class NetOfAScript; it was one of a script's .*simulate\(resume="):
        from_mapping({"model": "__main__.NetOfAScript"})


def test_any_model_can_have_group_norm(folder: Path) -> None:
    config = from_mapping({"model": "own_nets.normed", "model.norm": "group"})
    assert config.model.init_args == {"width": 4, "norm": "group"}
    net = registry.build(config.model, in_shape=(3,), num_classes=5)
    assert isinstance(net, nn.Sequential) and isinstance(net[1], nn.GroupNorm)
    with pytest.raises(ConfigError, match=r"--model\.norm: layer is unknown; accepted: own or group"):
        parse(["--model", "own_nets.normed", "--model.norm", "layer"])
    assert "--model.norm" in about_class("model", "own_nets.Plain")


def test_engine_arguments_are_no_options() -> None:
    given = {
        "method": {"model"},
        "model": {"in_shape", "num_classes", "num_tokens", "given"},
        "partition": {"owners", "num_clients"},
    }
    for kind, missing in given.items():
        for owner in registry.known(kind).values():
            assert not missing & registry.options(kind, owner).by_name.keys(), owner


def test_a_root_is_a_mere_place_of_files_that_are_known_alone(folder: Path) -> None:
    for owner in registry.known("data").values():
        if "root" in registry.options("data", owner).by_name:
            path = f"{owner.__module__}.{owner.__qualname__}"
            told = telling_root({"data": path, "data.root": "x"})
            assert told == (None if issubclass(owner, Downloadable) else "x"), path
    for path in (f"{folder}/mine.py:Mine", "__main__.Mine"):
        assert telling_root({"data": path, "data.root": "x"}) == "x" and telling_root({"data": path}) is None


def test_every_option_of_every_class_has_a_doc_line() -> None:
    bare = [
        f"{owner.__name__}.{name}"
        for kind in registry.KINDS
        for owner in registry.known(kind).values()
        for name, option in registry.options(kind, owner).by_name.items()
        if not option.help
    ]
    assert bare == []


def test_what_a_constructor_refuses_is_told_in_its_words(folder: Path) -> None:
    registry.load("model", "own_nets.Net")
    with pytest.raises(ConfigError, match=r"^--model Net: width must be positive$"):
        registry.build(Choice("own_nets.Net", {"width": 0}))


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("nowhere.Net", "--model: no module nowhere is installed or in {folder}"),
        ("./nowhere.py:Net", "--model: nowhere.py: no such file"),
        ("own_nets.Nett", "--model: own_nets.Nett is unknown; own_nets has no class Nett; it has Net, WideNet, Plain"),
        ("pathlib.Path", "--model: pathlib.Path is no subclass of torch.nn.Module"),
        ("broken.Net", "--model: importing broken failed: broken.py:1: NameError: name 'undefined' is not defined"),
        (
            "needy.Net",
            "--model: importing needy failed: needy.py:1: ModuleNotFoundError: No module named 'absent_package'",
        ),
        (
            "./json.py:Net",
            "--model: json.py cannot be imported, {json} has its name; rename the file",
        ),
    ],
)
def test_an_import_path_that_fails_says_why_in_one_line(folder: Path, path: str, message: str) -> None:
    import json

    (folder / "broken.py").write_text("undefined")
    (folder / "needy.py").write_text("import absent_package")
    (folder / "json.py").write_text(NET)
    with pytest.raises(ConfigError) as error:
        registry.load("model", path)
    assert str(error.value) == message.format(folder=folder, json=json.__file__)


@pytest.mark.parametrize(
    ("kind", "base", "has_not"),
    [("data", "Dataset", "read"), ("partition", "Partition", "divide"), ("stream", "Stream", "num_tasks")],
)
def test_what_a_class_lacks_is_named(folder: Path, kind: str, base: str, has_not: str) -> None:
    (folder / "half.py").write_text(f"from fl_ddp.api import {base}\n\nclass Half({base}):\n    pass\n")
    with pytest.raises(ConfigError, match=f"^--{kind}: half.Half has no {has_not} of its own$"):
        registry.load(kind, "half.Half")
