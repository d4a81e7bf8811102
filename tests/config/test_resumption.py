"""What a run that goes on takes from its stored configuration, and what may be changed of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import yaml
from command_lines import config_of, message_of
from launching import SMALL, simulated
from PIL import Image

import fl_ddp
from fl_ddp.config.command_line import from_file, from_mapping, parse
from fl_ddp.config.settings import Config, by_key
from fl_ddp.config.yaml_file import load_yaml, to_yaml
from fl_ddp.errors import ConfigError


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """The folder of a run with FedProx and 20 rounds."""
    folder = tmp_path / "x"
    folder.mkdir()
    config = config_of("--method FedProx --method.mu 0.1 --rounds 20 --participation 0.5 --targets [0.9]")
    (folder / "config.yaml").write_text(to_yaml(config))
    return folder


def test_resume_alone_takes_everything_from_the_run(run_folder: Path) -> None:
    stored = from_file(run_folder / "config.yaml")
    parsed = parse(["--resume", str(run_folder)])
    assert parsed == dataclasses.replace(stored, resume=str(run_folder))


def test_a_run_of_before_there_were_streams_goes_on(run_folder: Path) -> None:
    file = run_folder / "config.yaml"
    stored = from_file(file)
    content = load_yaml(file)
    assert isinstance(content, dict)
    kept = {key: value for key, value in content.items() if key != "stream"}
    file.write_text(yaml.safe_dump(kept))
    assert parse(["--resume", str(run_folder)]) == dataclasses.replace(stored, resume=str(run_folder))


def test_an_older_run_on_folders_of_images_goes_on_as_it_read_them(tmp_path: Path) -> None:
    for name in ("a/x", "a/y", "b/x", "b/y"):  # domains or classes: a new run is asked
        (tmp_path / "pets" / name).mkdir(parents=True)
        for i in range(2):
            Image.new("RGB", (4, 4), (i, 0, 0)).save(tmp_path / "pets" / name / f"{i}.png")
    asked = {"data": "ImageFolder", "data.root": str(tmp_path / "pets"), "data.test_share": 0.5, "data.size": 4}
    run = simulated({**SMALL, **asked, "data.domains": False, "clients": 2, "cohort": 2, "partition": "IID"}, tmp_path)
    file = run / "config.yaml"
    stored = load_yaml(file)
    assert isinstance(stored, dict) and isinstance(stored["data"], dict)
    del stored["data"]["init_args"]["domains"]
    file.write_text(yaml.safe_dump(stored))
    for more in ([], ["--data.domains", "false"]):
        assert parse(["--resume", str(run), *more]).data.init_args["domains"] is False
    assert [*fl_ddp.load(run).model.parameters()]


def test_resume_may_change_rounds_and_intervals(run_folder: Path) -> None:
    config = config_of(f"--resume {run_folder} --rounds 40 --eval_every 2 --checkpoint_every 3 --keep_checkpoints 4")
    assert (config.rounds, config.eval_every, config.checkpoint_every, config.keep_checkpoints) == (40, 2, 3, 4)
    assert config.method.init_args["mu"] == 0.1
    assert config_of(f"--resume {run_folder} --targets [0.5,0.6]").targets == (0.5, 0.6)


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
    free = "--rounds, --eval_every, --checkpoint_every, --keep_checkpoints, --stop_at, --patience, --rank_timeout"
    end = f"; with --resume only {free}, --figures, --targets may change, and where files lie"
    end += f"; once it is over, --init {run_folder} begins a new one with its model"
    assert message_of(f"--resume {run_folder} {line}") == start.format(folder=run_folder) + end


def test_the_rounds_of_a_cosine_stay(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(to_yaml(config_of("--lr_schedule cosine --rounds 30")))
    assert config_of(f"--resume {tmp_path} --rounds 30 --eval_every 2").rounds == 30
    assert message_of(f"--resume {tmp_path} --rounds 40") == (
        f"--rounds: 40 is not {tmp_path}'s 30, over which the learning rate falls (--lr_schedule cosine); once it is "
        f"over, --init {tmp_path} begins a new one with its model"
    )


def test_resume_compares_the_name_of_a_npz_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(to_yaml(config_of("--data x.npz")))
    assert config_of(f"--resume {tmp_path} --data x.npz").data.init_args["path"] == "x.npz"
    assert config_of(f"--resume {tmp_path} --data.path moved/x.npz").data.init_args["path"] == "moved/x.npz"
    assert message_of(f"--resume {tmp_path} --data y.npz").startswith("--data.path: y.npz is not ")
    (tmp_path / "config.yaml").write_text(to_yaml(config_of("--init a/model.safetensors")))
    assert config_of(f"--resume {tmp_path} --init {tmp_path}/a/model.safetensors").init
    other = message_of(f"--resume {tmp_path} --init b/model.safetensors")
    assert other.startswith("--init: b/model.safetensors is not ")
    assert message_of(f"--resume {tmp_path} --out elsewhere/runs").startswith("--out: elsewhere/runs is not ")


def test_resume_takes_any_file_but_weights_from_where_it_lies_now(tmp_path: Path) -> None:
    """Each option that a YAML file looks for beside itself; the weights at --init are the run's own after its start."""
    files = {
        "partition.path": "--partition FromFile --partition.path {}/x.json",
        "stream.path": "--data digits --stream FromFile --stream.path {}/x.json",
        "stream.enrolment": "--data digits --stream ClassGroups --stream.size 2 --stream.enrolment {}/x.csv",
        "availability": "--availability {}/x.csv",
        "class_reduction": "--class_reduction {}/x.csv",
        "client_lr": "--client_lr {}/x.csv",
        "client_work": "--client_work {}/x.csv",
    }
    for key, line in files.items():
        (tmp_path / "config.yaml").write_text(to_yaml(config_of(line.format("a"))))
        moved = line.partition(f"--{key} ")[2]
        assert by_key(config_of(f"--resume {tmp_path} --{key} {moved.format('b')}"))[key] == moved.format("b")
        other = message_of(f"--resume {tmp_path} --{key} {moved.format('b').replace('x.', 'y.')}")
        assert other.startswith(f"--{key}: b/y.")
    assert message_of(f"--resume {tmp_path} --client_work bimodal").startswith("--client_work: bimodal is not ")


def test_resume_takes_data_from_where_they_lie_now(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(to_yaml(config_of("--data MNIST --data.root old")))
    now = config_of(f"--resume {tmp_path} --data.root new --data.download true").data.init_args
    assert (now["root"], now["download"]) == ("new", True)
    assert message_of(f"--resume {tmp_path} --data.normalize true").startswith("--data.normalize: true is not ")


def test_resume_from_a_file_or_a_notebook_keeps_the_same_rules(run_folder: Path) -> None:
    wanted = config_of(f"--resume {run_folder} --rounds 40")
    assert from_mapping({"resume": str(run_folder), "rounds": 40}) == wanted
    assert from_mapping(Config(resume=str(run_folder), rounds=40)) == wanted
    assert from_mapping(wanted) == wanted
    with pytest.raises(ConfigError, match=r"^seed: 5 is not "):
        from_mapping({"resume": str(run_folder), "seed": 5})


def test_the_place_that_a_file_names_is_of_the_run_that_it_began(run_folder: Path, tmp_path: Path) -> None:
    (file := tmp_path / "mine.yaml").write_text("name: other\nout: elsewhere\nrounds: 40\n")
    wanted = config_of(f"--resume {run_folder} --rounds 40")
    assert config_of(f"--resume {run_folder} --config {file}") == wanted
    file.write_text(f"name: other\nout: elsewhere\nrounds: 40\nresume: {run_folder}\n")
    assert config_of(f"--config {file}") == from_file(file) == wanted
    file.write_text(to_yaml(dataclasses.replace(from_file(run_folder / "config.yaml"), name="a", out="b")))
    assert config_of(f"--config {file} --resume {run_folder}") == config_of(f"--resume {run_folder}")
    for typed in ("--name other", "--out elsewhere"):
        assert message_of(f"--config {file} --resume {run_folder} {typed}").startswith(f"{typed.split()[0]}: ")
    for given in ({"name": "other"}, {"out": "elsewhere"}):
        with pytest.raises(ConfigError, match="with --resume only"):
            from_mapping({"resume": str(run_folder), **given})
    file.write_text("seed: 5\nname: other\n")
    assert message_of(f"--config {file} --resume {run_folder}").startswith(f"{file}: seed: 5 is not ")


def test_resume_of_what_is_no_run_says_so(tmp_path: Path) -> None:
    assert message_of(f"--resume {tmp_path}/none") == f"--resume: {tmp_path}/none: no such folder"
    assert message_of(f"--resume {tmp_path}") == f"--resume: {tmp_path} holds no config.yaml; give the folder of a run"
    assert message_of("--resume") == "--resume: needs a value; accepted: a text or null"
