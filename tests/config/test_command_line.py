"""The command line, YAML files and notebooks' mappings all become the same Config."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_lines import config_of, message_of, printed_by
from hypothesis import given, settings
from hypothesis import strategies as st

import fl_ddp
from fl_ddp.config.absolute_paths import with_absolute_files
from fl_ddp.config.command_line import from_file, from_mapping, parse
from fl_ddp.config.settings import Choice, Config
from fl_ddp.config.yaml_file import to_yaml


def test_no_options_are_the_defaults() -> None:
    parsed = parse([])
    scalars = [each.name for each in dataclasses.fields(Config) if not isinstance(each.default, Choice)]
    assert all(getattr(parsed, name) == getattr(Config(), name) for name in scalars)
    assert [getattr(parsed, kind).name for kind in ("data", "partition", "model", "method")] == [
        "Digits",
        "Shards",
        "MLP",
        "FedAvg",
    ]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("--clients 100", {"clients": 100}),
        ("--participation 0.1", {"participation": 0.1}),
        ("--cohort 10", {"cohort": 10}),
        ("--local_test 0.2", {"local_test": 0.2}),
        ("--rounds 0", {"rounds": 0}),
        ("--local_epochs 0.5", {"local_epochs": 0.5}),
        ("--local_epochs 5", {"local_epochs": 5.0}),
        ("--local_steps 7", {"local_steps": 7}),
        ("--batch_size=32", {"batch_size": 32}),
        ("--lr 1e-2", {"lr": 0.01}),
        ("--lr_decay 0.99", {"lr_decay": 0.99, "lr_schedule": "exponential"}),
        ("--lr_schedule cosine --lr_min 0.01", {"lr_schedule": "cosine", "lr_min": 0.01}),
        ("--momentum 0.9", {"momentum": 0.9}),
        ("--weight_decay 0.0001", {"weight_decay": 0.0001}),
        ("--targets 0.85", {"targets": (0.85,)}),
        ("--targets 0.85,0.93", {"targets": (0.85, 0.93)}),
        ("--targets [0.85,0.93]", {"targets": (0.85, 0.93)}),
        ("--targets []", {"targets": ()}),
        ("--lanes auto", {"lanes": "auto"}),
        ("--lanes 5", {"lanes": 5}),
        ("--compile false", {"compile": False}),
        ("--figures false", {"figures": False}),
        ("--compile", {"compile": True}),
        ("--drop_last", {"drop_last": True}),
        ("--drop_last --seed 3", {"drop_last": True, "seed": 3}),
        ("--drop_last=true", {"drop_last": True}),
        ("--eval_every 5 --checkpoint_every 20", {"eval_every": 5, "checkpoint_every": 20}),
        ("--keep_checkpoints 3", {"keep_checkpoints": 3}),
        ("--device cpu", {"device": "cpu"}),
        ("--precision bfloat16", {"precision": "bfloat16"}),
        ("--precision tf32", {"precision": "tf32"}),
        ("--reduction fast", {"reduction": "fast"}),
        ("--targets [0.85,0.93]", {"targets": (0.85, 0.93)}),
        ("--targets '[0.85, 0.93]'", {"targets": (0.85, 0.93)}),
        ("--name 7 --out elsewhere", {"name": "7", "out": "elsewhere"}),
        ("--rounds 3 --rounds 4", {"rounds": 4}),
        ("--cohort 10 --cohort null", {"cohort": None}),
    ],
)
def test_scalars_are_read_as_the_issue_spells_them(line: str, expected: Mapping[str, object]) -> None:
    config = config_of(line)
    assert {name: getattr(config, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("line", "kind", "name", "init_args"),
    [
        ("--data digits", "data", "Digits", {}),
        ("--data MNIST --data.root DIR --data.download true", "data", "MNIST", {"root": "DIR", "download": True}),
        ("--data mnist --data.download --data.normalize", "data", "MNIST", {"download": True, "normalize": True}),
        ("--data folder/x.npz", "data", "Npz", {"path": "folder/x.npz"}),
        ("--data huggingface --data.path x --data.test null", "data", "HuggingFace", {"path": "x", "test": None}),
        ("--data x.csv --data.label y", "data", "Csv", {"path": "x.csv", "label": "y", "client": None}),
        ("--data ImageFolder --data.root DIR", "data", "ImageFolder", {"root": "DIR"}),
        ("--partition Shards --partition.shards_per_client 3", "partition", "Shards", {"shards_per_client": 3}),
        ("--partition.shards_per_client 3 --partition shards", "partition", "Shards", {"shards_per_client": 3}),
        ("--partition IID --partition.seed 4", "partition", "IID", {"seed": 4}),
        ("--partition dirichlet --partition.alpha 0.3", "partition", "Dirichlet", {"alpha": 0.3}),
        ("--model MLP --model.hidden 100", "model", "MLP", {"hidden": 100}),
        ("--model.hidden 100", "model", "MLP", {"hidden": 100}),
        ("--method FedProx --method.mu 0.5", "method", "FedProx", {"mu": 0.5, "server_lr": 1.0}),
        ("--method.mu 0.5 --lr 1 --method fl_ddp.methods.fedprox.FedProx", "method", "FedProx", {"mu": 0.5}),
    ],
)
def test_choices_are_read_in_any_order(line: str, kind: str, name: str, init_args: dict[str, object]) -> None:
    choice = getattr(config_of(line), kind)
    assert choice.name == name
    assert choice.class_path.startswith("fl_ddp.")
    assert {key: choice.init_args[key] for key in init_args} == init_args


@pytest.mark.parametrize(
    "text",
    [
        "method: FedProx\nmethod.mu: 0.1",
        "method: {name: FedProx, mu: 0.1}",
        "method: {class_path: FedProx, init_args: {mu: 0.1}}",
        "method:\n  class_path: fl_ddp.methods.fedprox.FedProx\n  init_args:\n    mu: 1e-1",
    ],
)
def test_yaml_spells_a_choice_in_these_ways(tmp_path: Path, text: str) -> None:
    (tmp_path / "my.yaml").write_text(text)
    assert from_file(tmp_path / "my.yaml") == config_of("--method FedProx --method.mu 0.1")


def test_the_command_line_goes_before_the_file_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("lr: 0.5\nrounds: 7\nmodel.hidden: 50")
    parsed = parse(["--rounds", "9", "--config", str(tmp_path / "my.yaml"), "--seed", "3"])
    assert (parsed.lr, parsed.rounds, parsed.model.init_args["hidden"]) == (0.5, 9, 50)


def test_a_later_file_goes_before_an_earlier_one(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("lr: 0.5\nrounds: 7")
    (tmp_path / "b.yaml").write_text("rounds: 8")
    config = config_of(f"--config {tmp_path}/a.yaml --config {tmp_path}/b.yaml")
    assert (config.lr, config.rounds) == (0.5, 8)


def test_another_class_on_the_command_line_drops_what_does_not_fit_it(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("method: {name: FedProx, mu: 0.1, server_lr: 0.5}")
    config = config_of(f"--config {tmp_path}/my.yaml --method FedAvg")
    assert config.method.name == "FedAvg"
    assert "mu" not in config.method.init_args
    assert config.method.init_args["server_lr"] == 0.5


def test_the_same_class_on_the_command_line_keeps_what_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("method: {name: FedProx, mu: 0.1}")
    assert config_of(f"--config {tmp_path}/my.yaml --method fedprox").method.init_args["mu"] == 0.1


def test_cohort_on_the_command_line_takes_the_place_of_participation_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("participation: 0.1\nlocal_epochs: 2")
    config = config_of(f"--config {tmp_path}/my.yaml --cohort 4 --local_steps 3")
    assert (config.participation, config.cohort, config.local_epochs, config.local_steps) == (None, 4, None, 3)


@pytest.mark.parametrize(("enrolled", "cohort"), [(1, 1), (4, 1), (14, 1), (16, 2), (18, 2), (100, 10)])
def test_a_share_of_the_clients_is_rounded_and_at_least_one(enrolled: int, cohort: int) -> None:
    assert from_mapping({"participation": 0.1}).cohort_of(enrolled) == cohort


def test_a_mapping_a_config_and_the_command_line_agree() -> None:
    expected = config_of("--method FedProx --method.mu 0.1 --data x.npz --targets [0.5] --lr 1")
    nested = {"method": {"name": "fedprox", "mu": 0.1}, "data": "x.npz", "targets": [0.5], "lr": 1}
    dotted = {"method": "FedProx", "method.mu": 0.1, "data": "npz", "data.path": "x.npz", "targets": (0.5,), "lr": 1.0}
    own = Config(method=Choice("FedProx", {"mu": 0.1}), data=Choice("Npz", {"path": "x.npz"}), targets=(0.5,), lr=1.0)
    assert from_mapping(nested) == from_mapping(dotted) == from_mapping(own) == expected


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--method FedProx --method.mu 1e-5 --lr 1e-7 --drop_last",
        "--data EMNIST --data.root 'a folder' --partition Dirichlet --partition.alpha 0.1 --partition.seed 1",
        "--data x.npz --model ResNet18 --lanes 5 --targets [0.5,1] --cohort 3 --local_steps 4 --name 1e3",
        "--partition FromFile --partition.path p.json --model.hidden 7 --compile false --device cpu --rounds 0",
    ],
)
def test_what_print_config_prints_gives_the_same_configuration(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    printed = printed_by(line + " --print_config", capsys)
    (tmp_path / "my.yaml").write_text(printed)
    assert config_of(f"--config {tmp_path}/my.yaml") == with_absolute_files(config_of(line)), "wherever it is put"
    assert printed_by(f"--config {tmp_path}/my.yaml --print_config", capsys) == printed


def test_print_config_fills_in_all_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    printed = printed_by("--print_config --method FedProx", capsys)
    assert "class_path: fl_ddp.methods.fedprox.FedProx\n" in printed
    assert "mu: 0.01" in printed
    assert all(f"\n{each.name}:" in "\n" + printed for each in dataclasses.fields(Config))


def test_a_name_that_is_no_unicode_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Of bytes on the command line, which libyaml does not read."""
    config = config_of("--name a\udce9b")
    (tmp_path / "my.yaml").write_text(to_yaml(config))
    assert from_file(tmp_path / "my.yaml") == config


@given(
    name=st.text() | st.sampled_from(["null", "Null", "~", "1e3", "no", "[1]", "{a: 1}", "2024-01-01", "a\x85b"]),
    lr=st.floats(1e-12, 1e6),
    targets=st.lists(st.floats(0.0, 1.0, exclude_min=True)).map(tuple),
    lanes=st.integers(1, 2**31 - 1) | st.just("auto"),
    mu=st.floats(0, 1e9),
)
@settings(max_examples=25, deadline=None)
def test_any_values_survive_the_way_through_yaml(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    lr: float,
    targets: tuple[float, ...],
    lanes: int,
    mu: float,
) -> None:
    choice = Choice("fl_ddp.methods.fedprox.FedProx", {"weights": "data", "server_lr": 1.0, "mu": mu})
    config = dataclasses.replace(from_mapping({}), name=name, lr=lr, targets=targets, lanes=lanes, method=choice)
    file = tmp_path_factory.mktemp("yaml") / "my.yaml"
    file.write_text(to_yaml(config), encoding="utf-8")
    assert from_file(file) == config


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("# nothing\n")
    assert from_file(str(tmp_path / "my.yaml")) == config_of("")


def test_one_target_of_a_notebook_is_a_list_of_one() -> None:
    assert from_mapping({"targets": 0.85}).targets == from_mapping({"targets": [0.85]}).targets == (0.85,)


def test_a_method_and_a_model_of_the_users_run_from_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_method.py").write_text(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n"
        "from fl_ddp.methods.fedavg import FedAvg\n"
        "@dataclass(frozen=True)\n"
        "class Mine(FedAvg):\n"
        '    """A method of one\'s own.\n\n    Attributes:\n        rho: its strength.\n    """\n\n'
        "    rho: float = 0.5\n"
    )
    (tmp_path / "own_net.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n"
        "    def __init__(self, width=3, act=torch.relu, most=float('inf')):\n        super().__init__()\n"
    )
    monkeypatch.chdir(tmp_path)
    line = "--method ./own_method.py:Mine --method.rho 0.25 --model own_net.Net --model.width 5"
    config = config_of(line)
    assert config.method == Choice("./own_method.py:Mine", {"weights": "data", "server_lr": 1.0, "rho": 0.25})
    assert config.method.name == "Mine"
    # Defaults that options cannot be stay the constructor's.
    assert config.model == Choice("own_net.Net", {"width": 5})
    (tmp_path / "my.yaml").write_text(to_yaml(config))
    assert from_file("my.yaml") == dataclasses.replace(config, method=with_absolute_files(config).method)
    assert message_of("--method own_method.Mine --method.roh 1").endswith("did you mean --method.rho?")
    shown = printed_by("--method.help own_method.Mine", capsys)
    assert shown.startswith("Mine: A method of one's own.\n")
    assert "--method.rho          its strength [0.5]" in shown


CONFIGS = sorted((Path(fl_ddp.__file__).parents[1] / "configs").rglob("*.yaml"))


@pytest.mark.parametrize(
    "file", [file for file in CONFIGS if not file.name.endswith((".table.yaml", ".points.yaml"))], ids=lambda f: f.name
)
def test_the_shipped_configurations_are_valid(file: Path) -> None:
    assert from_file(file).data.class_path.startswith("fl_ddp.datasets.")


def test_the_importance_papers_setting_is_its_own() -> None:
    config = from_file(next(file for file in CONFIGS if file.match("importance/mnist_mlp.yaml")))
    assert (config.cohort_size, config.clients, config.epochs, config.batch_size, config.lr) == (
        10,
        100,
        10.0,
        10,
        0.01,
    )
    assert (config.data.name, config.model.init_args["hidden"], config.method.name) == ("MNIST", 200, "FedAvg")


@pytest.mark.parametrize(
    ("line", "lr"),
    [
        ("", 0.1),
        ("--optimizer Adam", 0.001),
        ("--optimizer adamw", 0.001),
        ("--optimizer RMSprop", 0.01),
        ("--optimizer Adagrad", 0.01),
        ("--optimizer Adam --lr 0.1", 0.1),
    ],
)
def test_an_optimizer_has_torchs_learning_rate_where_none_is_given(line: str, lr: float) -> None:
    assert config_of(line).lr == lr


def test_what_older_versions_called_options_is_understood() -> None:
    config = config_of("--momentum 0.9 --keep_momentum true")
    assert config.optimizer.init_args["keep"] is True and config.optimizer.name == "SGD"
    assert config == config_of("--momentum 0.9 --optimizer.keep true")
