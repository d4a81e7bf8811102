"""The command line, YAML files and notebooks' mappings all become the same Config."""

from __future__ import annotations

import dataclasses
import shlex
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fl_ddp
from fl_ddp.config.command_help import GROUPS
from fl_ddp.config.command_line import from_file, from_mapping, parse
from fl_ddp.config.settings import Choice, Config
from fl_ddp.config.yaml_file import to_yaml
from fl_ddp.errors import ConfigError
from fl_ddp.version import __version__


def config_of(line: str) -> Config:
    return parse(shlex.split(line))


def message_of(line: str) -> str:
    with pytest.raises(ConfigError) as error:
        parse(shlex.split(line))
    return str(error.value)


def printed_by(line: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        parse(shlex.split(line))
    assert end.value.code == 0
    return capsys.readouterr().out


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """The folder of a run with FedProx and 20 rounds."""
    folder = tmp_path / "x"
    folder.mkdir()
    config = config_of("--method FedProx --method.mu 0.1 --rounds 20 --participation 0.5 --targets [0.9]")
    (folder / "config.yaml").write_text(to_yaml(config))
    return folder


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
        ("--compile", {"compile": True}),
        ("--drop_last", {"drop_last": True}),
        ("--drop_last --seed 3", {"drop_last": True, "seed": 3}),
        ("--drop_last=true", {"drop_last": True}),
        ("--eval_every 5 --checkpoint_every 20", {"eval_every": 5, "checkpoint_every": 20}),
        ("--keep_checkpoints 3", {"keep_checkpoints": 3}),
        ("--device cpu", {"device": "cpu"}),
        ("--precision bfloat16", {"precision": "bfloat16"}),
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
    assert config_of(f"--config {tmp_path}/my.yaml") == config_of(line)
    assert printed_by(f"--config {tmp_path}/my.yaml --print_config", capsys) == printed


def test_print_config_fills_in_all_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    printed = printed_by("--print_config --method FedProx", capsys)
    assert "class_path: fl_ddp.methods.fedprox.FedProx\n" in printed
    assert "mu: 0.01" in printed
    assert all(f"\n{each.name}:" in "\n" + printed for each in dataclasses.fields(Config))


@given(
    name=st.text() | st.sampled_from(["null", "Null", "~", "1e3", "no", "[1]", "{a: 1}", "2024-01-01"]),
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


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--method FedProx --method.muu 1", "--method.muu: unknown option; did you mean --method.mu?"),
        ("--method.mu 1", "--method.mu: unknown option; FedAvg has weights, server_lr"),
        ("--mu 1", "--mu: unknown option; did you mean --method.mu?"),
        ("--modle.hidden 1", "--modle.hidden: unknown option; did you mean --model.hidden?"),
        ("--local-epochs 1", "--local-epochs: unknown option; did you mean --local_epochs?"),
        ("--round 1", "--round: unknown option; did you mean --rounds?"),
        ("--qqq 1", "--qqq: unknown option; --help shows all"),
        ("--method.init_args.mu 1", "--method.init_args.mu: unknown option; FedAvg has weights, server_lr"),
        ("rounds 3", "rounds: belongs to no option; write --option value, and quote values with spaces"),
        ("-lr 3", "-lr: belongs to no option; write --option value, and quote values with spaces"),
        ("--rounds 3.5", "--rounds: 3.5 has the wrong type; accepted: a whole number"),
        ("--rounds true", "--rounds: true has the wrong type; accepted: a whole number"),
        ("--rounds null", "--rounds: null has the wrong type; accepted: a whole number"),
        ("--rounds", "--rounds: needs a value; accepted: a whole number"),
        ("--rounds -1", "--rounds: -1 is impossible; accepted: whole numbers from 0 up"),
        ("--lr abc", "--lr: abc has the wrong type; accepted: a number"),
        ("--lr nan", "--lr: nan has the wrong type; accepted: a number"),
        ("--lr .inf", "--lr: .inf is not a finite number"),
        ("--targets [0.5,.nan]", "--targets: [0.5,.nan] is not a finite number"),
        ("--targets x", "--targets: x has the wrong type; accepted: a list such as [a number,...]"),
        ("--targets", "--targets: needs a value; accepted: a list such as [a number,...]"),
        ("--targets 2", "--targets: 2.0 is impossible; accepted: 0 < targets <= 1"),
        ("--lanes many", "--lanes: many has the wrong type; accepted: a whole number or auto"),
        ("--seed -1", "--seed: -1 is impossible; accepted: whole numbers from 0 up"),
        (f"--seed {2**63}", f"--seed: {2**63} is impossible; accepted: whole numbers below 2**63"),
        (f"--batch_size {10**20}", f"--batch_size: {10**20} is impossible; accepted: whole numbers below 2**31"),
        (f"--local_steps {2**31}", f"--local_steps: {2**31} is impossible; accepted: whole numbers below 2**31"),
        ("--local_epochs 1e300", "--local_epochs: 1e+300 is impossible; accepted: 0 < local_epochs < 2**31"),
        ("--lanes 0", "--lanes: 0 is impossible; accepted: whole numbers from 1 up or auto"),
        ("--device gpu", "--device: gpu has the wrong type; accepted: auto or cpu or cuda"),
        ("--compile maybe", "--compile: maybe has the wrong type; accepted: true or false"),
        ("--cohort x", "--cohort: x has the wrong type; accepted: a whole number or null"),
        ("--participation 0.1 --cohort 2", "--participation and --cohort: are both given; give one of them"),
        ("--lr_schedule cosine --lr_decay 0.9", "--lr_decay: belongs to --lr_schedule exponential; here it is cosine"),
        ("--lr_min 0.1", "--lr_min: belongs to --lr_schedule cosine; here it is exponential"),
        ("--lr_schedule cosine --lr_min 0.2", "--lr_min: 0.2 is more than --lr 0.1"),
        ("--method.server_lr x", "--method.server_lr: x has the wrong type; accepted: a number"),
        ("--config", "--config: needs the path of a YAML file"),
        ("--config nowhere.yaml", "nowhere.yaml: cannot be read: No such file or directory"),
    ],
)
def test_a_mistake_gives_one_line_that_names_it(line: str, message: str) -> None:
    assert message_of(line) == message


def test_a_wrong_name_of_a_choice_lists_the_names() -> None:
    message = message_of("--data mnits")
    assert message.startswith("--data: mnits is unknown; did you mean MNIST? known: MNIST, ")
    assert message.endswith("Folder, or an import path such as my_file.MyClass")
    assert message_of("--method").startswith("--method: needs a name; known: FedAvg, ")
    assert message_of("--method 7").startswith("--method: 7 is unknown; known: ")
    assert message_of("--data ./no/folder").startswith("--data: ./no/folder is unknown; ")


def test_a_required_option_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "needing_net.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n"
        '    """N.\n\n    Args:\n        width: units.\n    """\n\n    def __init__(self, width: int): ...\n'
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert message_of("--model needing_net.Net") == "--model.width: is missing; Net needs it (units)"
    assert config_of("--model needing_net.Net --model.width 3").model.init_args == {"width": 3}
    assert "--model.width         units [required]" in printed_by("--model.help needing_net.Net", capsys)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("roundz: 3", "roundz: unknown option; did you mean rounds?"),
        ("method: {name: FedProx, muu: 3}", "method.muu: unknown option; did you mean method.mu?"),
        ("method: {name: FedProx, init_args: 3}", "method.init_args: 3 is not a mapping of options"),
        ("rounds: 3.5", "rounds: 3.5 has the wrong type; accepted: a whole number"),
        ("rounds: null", "rounds: null has the wrong type; accepted: a whole number"),
        ("name: 3", "name: 3 has the wrong type; accepted: a text or null"),
        ("lr: .nan", "lr: nan is not a finite number"),
        ("lr: 1\nrounds: [3", "line 2: not YAML: expected ',' or ']', but got '<stream end>'"),
        ("lr: 1\nlr: 2", "line 2: not YAML: lr stands here a second time"),
        ("method:\n  mu: 1\n  mu: 1", "line 3: not YAML: mu stands here a second time"),
        ("- lr", "holds no options; accepted: lines such as lr: 0.1"),
        ("method: null", "method: needs a name; known: "),
        ("lr: !!python/object:os.system 3", "line 1: not YAML: could not determine a constructor for the tag"),
        ("3: 4", "3: unknown option; --help shows all"),
        ("[1]: 4", "line 1: not YAML: found unhashable key"),
        ("lr: \x07", "not YAML: "),
    ],
)
def test_a_mistake_in_a_file_names_the_file(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(text)
    for read in (partial(parse, ["--config", str(file)]), partial(from_file, file)):
        with pytest.raises(ConfigError) as error:
            read()
        assert str(error.value).startswith(f"{file}: {message}")
        assert "\n" not in str(error.value)


def test_a_file_that_is_no_text_or_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_bytes(b"\xff\xfe\x00")
    assert message_of(f"--config {tmp_path}/my.yaml") == f"{tmp_path}/my.yaml: is not a text file in UTF-8"
    assert message_of(f"--config {tmp_path}") == f"{tmp_path}: cannot be read: Is a directory"


def test_an_empty_file_gives_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_text("# nothing\n")
    assert from_file(str(tmp_path / "my.yaml")) == config_of("")


def test_one_target_of_a_notebook_is_a_list_of_one() -> None:
    assert from_mapping({"targets": 0.85}).targets == from_mapping({"targets": [0.85]}).targets == (0.85,)


def test_mistakes_in_a_mapping_name_the_key() -> None:
    with pytest.raises(ConfigError, match=r"^method\.muu: unknown option; did you mean method\.mu\?$"):
        from_mapping({"method": {"name": "FedProx", "muu": 1}})
    with pytest.raises(ConfigError, match=r"^lr: nan is not a finite number$"):
        from_mapping(Config(lr=float("nan")))


def test_resume_alone_takes_everything_from_the_run(run_folder: Path) -> None:
    stored = from_file(run_folder / "config.yaml")
    parsed = parse(["--resume", str(run_folder)])
    assert parsed == dataclasses.replace(stored, resume=str(run_folder))


def test_resume_may_change_rounds_and_intervals(run_folder: Path) -> None:
    config = config_of(f"--resume {run_folder} --rounds 40 --eval_every 2 --checkpoint_every 3 --keep_checkpoints 4")
    assert (config.rounds, config.eval_every, config.checkpoint_every, config.keep_checkpoints) == (40, 2, 3, 4)
    assert config.method.init_args["mu"] == 0.1


@pytest.mark.parametrize("same", ["--method.mu 0.1", "--method fedprox", "--lr 0.1", "--targets [0.90]", "--seed 0"])
def test_resume_accepts_an_option_that_says_what_is_stored(run_folder: Path, same: str) -> None:
    assert config_of(f"{same} --resume {run_folder}") == config_of(f"--resume {run_folder}")


@pytest.mark.parametrize(
    ("line", "start"),
    [
        ("--lr 0.2", "--lr: 0.2 is not {folder}'s 0.1"),
        ("--method.mu 0.2", "--method.mu: 0.2 is not {folder}'s 0.1"),
        ("--method FedAvg", "--method: fl_ddp.methods.fedavg.FedAvg is not {folder}'s fl_ddp.methods.fedprox.FedProx"),
        ("--cohort 3", "--cohort: 3 is not {folder}'s null"),
        ("--data x.npz", "--data: fl_ddp.datasets.npz.Npz is not {folder}'s fl_ddp.datasets.digits.Digits"),
    ],
)
def test_resume_refuses_other_changes(run_folder: Path, line: str, start: str) -> None:
    end = "; with --resume only --rounds, --eval_every, --checkpoint_every, --keep_checkpoints may change"
    assert message_of(f"--resume {run_folder} {line}") == start.format(folder=run_folder) + end


def test_the_rounds_of_a_cosine_stay(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(to_yaml(config_of("--lr_schedule cosine --rounds 30")))
    assert config_of(f"--resume {tmp_path} --rounds 30 --eval_every 2").rounds == 30
    assert message_of(f"--resume {tmp_path} --rounds 40") == (
        f"--rounds: 40 is not {tmp_path}'s 30, over which the learning rate falls (--lr_schedule cosine)"
    )


def test_resume_compares_the_path_of_a_npz_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(to_yaml(config_of("--data x.npz")))
    assert config_of(f"--resume {tmp_path} --data x.npz").data.init_args["path"] == "x.npz"
    assert message_of(f"--resume {tmp_path} --data y.npz").startswith("--data.path: y.npz is not ")


def test_resume_from_a_file_or_a_notebook_keeps_the_same_rules(run_folder: Path) -> None:
    wanted = config_of(f"--resume {run_folder} --rounds 40")
    assert from_mapping({"resume": str(run_folder), "rounds": 40}) == wanted
    assert from_mapping(Config(resume=str(run_folder), rounds=40)) == wanted
    assert from_mapping(wanted) == wanted
    with pytest.raises(ConfigError, match=r"^seed: 5 is not "):
        from_mapping({"resume": str(run_folder), "seed": 5})


def test_resume_of_what_is_no_run_says_so(tmp_path: Path) -> None:
    assert message_of(f"--resume {tmp_path}/none") == f"--resume: {tmp_path}/none: no such folder"
    assert message_of(f"--resume {tmp_path}") == f"--resume: {tmp_path} holds no config.yaml; give the folder of a run"
    assert message_of("--resume") == "--resume: needs a value; accepted: a text or null"


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
        "    def __init__(self, width=3, act=torch.relu):\n        super().__init__()\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    line = "--method ./own_method.py:Mine --method.rho 0.25 --model own_net.Net --model.width 5"
    config = config_of(line)
    assert config.method == Choice("./own_method.py:Mine", {"weights": "data", "server_lr": 1.0, "rho": 0.25})
    assert config.method.name == "Mine"
    # A default that YAML cannot hold stays the constructor's.
    assert config.model == Choice("own_net.Net", {"width": 5})
    (tmp_path / "my.yaml").write_text(to_yaml(config))
    assert from_file("my.yaml") == config
    assert message_of("--method own_method.Mine --method.roh 1").endswith("did you mean --method.rho?")
    shown = printed_by("--method.help own_method.Mine", capsys)
    assert shown.startswith("Mine: A method of one's own.\n")
    assert "--method.rho          its strength [0.5]" in shown


def test_help_shows_each_option_once_with_its_doc_line(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed_by("--help", capsys)
    assert sorted(key for keys in GROUPS.values() for key in keys) == sorted(
        each.name for each in dataclasses.fields(Config)
    )
    for each in dataclasses.fields(Config):
        assert shown.count(f"\n  --{each.name} ") == 1
    assert "--lr                  learning rate of the clients in round 0 [0.1]\n" in shown
    assert "FedProx" in shown
    assert len(shown.splitlines()) < 80
    assert max(map(len, shown.splitlines())) <= 120
    assert printed_by("-h --wrong 3", capsys) == shown


def test_help_of_a_class_shows_its_options_with_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    shown = printed_by("--method.help FedProx", capsys)
    assert shown.startswith("FedProx: FedAvg whose clients are held near the received model.\n")
    assert "\n  --method.mu           strength of the pull" in shown
    assert "[0.01]\n" in shown
    assert "--method.model" not in shown
    assert "--model.in_shape" not in printed_by("--model.help mlp", capsys)
    assert "--partition.shards_per_client" in printed_by("--partition.help=shards", capsys)
    assert "\n  FedProx" in printed_by("--method.help", capsys)
    assert message_of("--method.help FedPorx").startswith("--method.help: FedPorx is unknown; did you mean FedProx?")


def test_help_of_a_class_without_a_docstring_shows_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "undocumented.py").write_text(
        "import torch\nfrom dataclasses import dataclass\nfrom fl_ddp.methods.fedavg import FedAvg\n"
        "class Net(torch.nn.Module):\n    def __init__(self, width: int = 3): ...\n"
        "@dataclass(frozen=True)\nclass Mine(FedAvg):\n    rho: float = 0.5\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert printed_by("--model.help undocumented.Net", capsys).startswith("Net\n  --model.width ")
    assert printed_by("--method.help undocumented.Mine", capsys).startswith("Mine\n  --method.weights ")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed_by("--version", capsys) == f"fl_ddp {__version__}\n"


@pytest.mark.parametrize("line", ["--help", "--version", "--print_config", "--method.help FedAvg"])
def test_only_rank_0_prints(line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    assert printed_by(line, capsys) == ""
    monkeypatch.setenv("RANK", "0")
    assert printed_by(line, capsys) != ""


def test_an_argument_that_is_an_object_cannot_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outer_net.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, inner: torch.nn.Module | None = None): ...\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert config_of("--model outer_net.Net").model.init_args == {"inner": None}
    assert message_of("--model outer_net.Net --model.inner torch.nn.ReLU") == (
        "--model.inner: is an object, which options cannot give; accepted: what YAML holds"
    )


CONFIGS = sorted((Path(fl_ddp.__file__).parents[1] / "configs").rglob("*.yaml"))


@pytest.mark.parametrize(
    "file", [file for file in CONFIGS if not file.name.endswith(".table.yaml")], ids=lambda f: f.name
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
