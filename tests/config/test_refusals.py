"""Options that cannot be: one line names the option, or the file or key that it is from."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import pytest
from command_lines import config_of, message_of, printed_by

from fl_ddp.config import registry
from fl_ddp.config.clear_numbers import ACCEPTED
from fl_ddp.config.command_line import from_file, from_mapping, parse
from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("--method FedProx --method.muu 1", "--method.muu: unknown option; did you mean --method.mu?"),
        ("--method.mu 1", "--method.mu: unknown option; FedAvg has weights, server_lr"),
        (
            "--method.FedProx.mu 1",
            "--method.FedProx.mu: unknown option; FedProx is a method and no option: give its name to --method, its "
            "options beside that",
        ),
        (
            "--method.name FedProx",
            "--method.name: unknown option; --method FedProx chooses a method, and its options stand beside that",
        ),
        ("--mu 1", "--mu: unknown option; did you mean --method.mu?"),
        (
            "--optimizer.momentum 0.9",
            "--optimizer.momentum: unknown option; did you mean --momentum? SGD has keep, nesterov, dampening",
        ),
        (
            "--stream ClassGroups --stream.rounds 3",
            "--stream.rounds: unknown option; did you mean --stream.task_rounds?",
        ),
        ("--local_bs 1", "--local_bs: unknown option; did you mean --batch_size?"),
        ("--modle.hidden 1", "--modle.hidden: unknown option; did you mean --model.hidden?"),
        ("--local-epochs 1", "--local-epochs: unknown option; did you mean --local_epochs?"),
        ("--round 1", "--round: unknown option; did you mean --rounds?"),
        ("--learning_rate 1", "--learning_rate: unknown option; did you mean --lr?"),
        ("--algorithm FedProx", "--algorithm: unknown option; did you mean --method?"),
        ("--learning-rate 1", "--learning-rate: unknown option; did you mean --lr?"),
        ("--data_root d", "--data_root: unknown option; did you mean --data.root?"),
        ("--partition-alpha 1", "--partition-alpha: unknown option; did you mean --partition.alpha?"),
        ("--join_ratio 0.1", "--join_ratio: unknown option; did you mean --participation?"),
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
        ("--lr nan", "--lr: nan is not a finite number"),
        ("--lr -inf", "--lr: -inf is not a finite number"),
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
        ("--device gpu", "--device: gpu is unknown; accepted: auto or cpu or cuda"),
        ("--compile maybe", "--compile: maybe has the wrong type; accepted: true or false"),
        ("--cohort x", "--cohort: x has the wrong type; accepted: a whole number or null"),
        (
            "--drop_stragglers true",
            "--drop_stragglers: true, but there are none; accepted: --stragglers above 0 beside it",
        ),
        (
            "--stragglers 0.5",
            "--stragglers: 0.5, but there is no part of one epoch or step that they could do; "
            "accepted: --local_epochs or --local_steps from 2 up, or --drop_stragglers true",
        ),
        ("--dropout_rate 1", "--dropout_rate: 1.0 is impossible; accepted: 0 <= dropout_rate < 1"),
        ("--participation 0.1 --cohort 2", "--participation and --cohort: are both given; give one of them"),
        (
            "--lr_schedule cosine --lr_decay 0.9",
            "--lr_decay: belongs to --lr_schedule exponential or step; here it is cosine",
        ),
        ("--lr_min 0.1", "--lr_min: belongs to --lr_schedule cosine or warmup_cosine; here it is exponential"),
        ("--lr_schedule step --lr_decay 0.5", "--lr_step: is missing; --lr_schedule step needs it"),
        (
            "--lr_schedule step --lr_step 5",
            "--lr_decay: 1 changes nothing in the steps of --lr_schedule step; accepted: below 1: 0.1, say",
        ),
        ("--lr_schedule warmup_cosine", "--lr_warmup: is missing; --lr_schedule warmup_cosine needs it"),
        ("--lr_warmup 5", "--lr_warmup: belongs to --lr_schedule warmup_cosine; here it is exponential"),
        ("--lr_schedule cosine --lr_min 0.2", "--lr_min: 0.2 is more than --lr 0.1"),
        ("--rounds 1:30", f"--rounds: 1:30 has two readings; accepted: {ACCEPTED}"),
        ("--model.hidden [8,010]", f"--model.hidden: 010 has two readings; accepted: {ACCEPTED}"),
        ("--targets [0.5,010]", f"--targets: 010 has two readings; accepted: {ACCEPTED}"),
        ("--targets 0.5,010", f"--targets: 010 has two readings; accepted: {ACCEPTED}"),
        ("--targets 0_10,1", f"--targets: 0_10 has two readings; accepted: {ACCEPTED}"),
        ("--rounds '1:30'", f"--rounds: 1:30 has two readings; accepted: {ACCEPTED}"),
        ("--rounds '\"1:30\"'", f"--rounds: 1:30 has two readings; accepted: {ACCEPTED}"),
        ("--method.server_lr x", "--method.server_lr: x has the wrong type; accepted: a number"),
        ("--config", "--config: needs the path of a YAML file"),
        ("--config nowhere.yaml", "nowhere.yaml: cannot be read: No such file or directory"),
    ],
)
def test_a_mistake_gives_one_line_that_names_it(line: str, message: str) -> None:
    assert message_of(line) == message


@pytest.mark.parametrize("line", ["--seed 010", "--cohort 010", "--lr 010", "--model.hidden 010"])
def test_a_leading_zero_changes_no_number(line: str) -> None:
    config = config_of(line)
    assert 10 in (config.seed, config.cohort, config.lr, config.model.init_args["hidden"])


@pytest.mark.parametrize("text", ["07", "0_7", "00", "+0_0_1"])
def test_what_both_readings_agree_on_is_a_number(text: str, tmp_path: Path) -> None:
    file = tmp_path / "my.yaml"
    file.write_text(f"seed: {text}")
    assert from_file(file).seed in (0, 1, 7)
    assert config_of(f"--seed {text}").seed in (0, 1, 7)


def test_a_text_may_look_like_a_number_with_two_readings() -> None:
    assert config_of("--name 1:30").name == "1:30"


def test_a_wrong_name_of_a_choice_lists_the_names() -> None:
    message = message_of("--data mnits")
    assert message.startswith("--data: mnits is unknown; did you mean MNIST? known: MNIST, ")
    names, _, rest = message.partition("known: ")[2].rpartition(", or an ")
    assert rest == "import path such as my_file.MyClass" and set(names.split(", ")) == registry.known("data").keys()
    assert message_of("--method").startswith("--method: needs a name; known: Ditto, FedALA, FedAvg, ")
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
        ("lr: 2020-13-45", "not YAML: month must be in 1..12"),
        ("lr: !!int ", "not YAML: "),
        ("lr: 1\nlr: 2", "line 2: not YAML: lr stands here a second time"),
        ("method:\n  mu: 1\n  mu: 1", "line 3: not YAML: mu stands here a second time"),
        ("seed: 010", "line 1: 010 has two readings; accepted: numbers without leading zeros and colons"),
        ("lr: 1\nmodel: {hidden: [8, 1:30]}", "line 2: 1:30 has two readings; accepted: "),
        ('rounds: "1:30"', "rounds: 1:30 has two readings; accepted: "),
        ("rounds: '+010'", "rounds: +010 has two readings; accepted: "),
        ('targets: ["0.5", "0_10"]', "targets: 0_10 has two readings; accepted: "),
        ("lr: 1:30.5", "line 1: 1:30.5 has two readings; accepted: "),
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


@pytest.mark.parametrize("text", ["a: &a [*a]", "method: &a {name: FedProx, mu: *a}", f"a: {'[' * 20_000}"])
def test_a_file_without_an_end_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "my.yaml").write_text(text)
    assert (
        message_of(f"--config {tmp_path}/my.yaml") == f"{tmp_path}/my.yaml: holds itself, or too much within each other"
    )


def test_a_few_lines_that_aliases_make_too_many_of_are_refused(tmp_path: Path) -> None:
    lines = [f"a{n}: &a{n} [{', '.join(11 * [f'*a{n - 1}'])}]\n" for n in range(1, 7)]
    (tmp_path / "my.yaml").write_text("a0: &a0 lol\n" + "".join(lines))
    told = f"{tmp_path}/my.yaml: holds more than 1000000 values, each alias counted as what it stands for"
    assert message_of(f"--config {tmp_path}/my.yaml") == told


def test_a_file_that_is_no_text_or_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "my.yaml").write_bytes(b"\xff\xfe\x00")
    assert message_of(f"--config {tmp_path}/my.yaml") == f"{tmp_path}/my.yaml: is not a text file in UTF-8"
    assert message_of(f"--config {tmp_path}") == f"{tmp_path}: cannot be read: Is a directory"


def test_mistakes_in_a_mapping_name_the_key() -> None:
    with pytest.raises(ConfigError, match=r"^method\.muu: unknown option; did you mean method\.mu\?$"):
        from_mapping({"method": {"name": "FedProx", "muu": 1}})
    with pytest.raises(ConfigError, match=r"^lr: nan is not a finite number$"):
        from_mapping(Config(lr=float("nan")))


def test_an_argument_that_is_an_object_cannot_be_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "outer_net.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n    def __init__(self, inner: torch.nn.Module | None = None): ...\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    assert config_of("--model outer_net.Net").model.init_args == {"inner": None}
    assert message_of("--model outer_net.Net --model.inner torch.nn.ReLU") == (
        "--model.inner: is an object, which options cannot give; accepted: what YAML holds"
    )
