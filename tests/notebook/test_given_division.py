"""What simulate() makes of sample indices of each client."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL

import fl_ddp
from fl_ddp.config.yaml_file import to_yaml
from fl_ddp.errors import ConfigError
from fl_ddp.notebook.asked import asked
from fl_ddp.partitions.from_file import FromFile
from fl_ddp.partitions.iid import IID

OWN = [[5, 0, 3], np.array([1, 9], np.uint8), torch.tensor([2, 4]), range(6, 8), ()]
SORTED = [[0, 3, 5], [1, 9], [2, 4], [6, 7], []]


def stored(partition: object, tmp_path: Path) -> object:
    config = asked({"out": str(tmp_path)}, {"partition": partition}).config
    assert config.partition.name == "FromFile" and config.clients == len(partition)  # type: ignore[arg-type]
    return json.loads(Path(str(config.partition.init_args["path"])).read_text())


@pytest.mark.parametrize(
    "given", [OWN, tuple(OWN), {np.int64(i): OWN[i] for i in (4, 0, 2, 1, 3)}, dict(zip("01234", OWN, strict=True))]
)
def test_a_division_is_the_file_that_from_file_reads(given: object, tmp_path: Path) -> None:
    assert stored(given, tmp_path) == {"overlap": False, "clients": SORTED}


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_rows_of_an_array_are_clients_and_may_have_the_same_samples(
    make: Callable[[object], object], tmp_path: Path
) -> None:
    assert stored(make([[1, 2], [2, 3]]), tmp_path) == {"overlap": True, "clients": [[1, 2], [2, 3]]}


def test_no_run_to_go_on_with_is_a_new_run(tmp_path: Path) -> None:
    config = asked({"out": str(tmp_path), "resume": None}, {"partition": OWN}).config
    assert config.clients == 5 and Path(str(config.partition.init_args["path"])).is_file()


def test_a_run_has_these_clients(tmp_path: Path) -> None:
    own = [list(range(client, 120, 6)) for client in range(6)]
    settings = {**SMALL, "out": tmp_path, "rounds": 1}
    del settings["clients"], settings["partition"]
    result = fl_ddp.simulate(settings, cohort=2, partition=own)
    left = json.loads((Path(str(result["folder"])) / "partition.json").read_text())
    assert left["clients"] == own and left["kind"] == "FromFile"
    again = fl_ddp.simulate(resume=result["folder"], partition=own, rounds=2)
    assert again["rounds"] == 2


def test_more_clients_than_samples_may_share_them(tmp_path: Path) -> None:
    labels, own = np.arange(4) % 2, [[0, 1, 2, 3]] * 6
    (file := tmp_path / "own.json").write_text(json.dumps({"overlap": True, "clients": own}))
    parts = FromFile(path=str(file), min_size=4).split(labels, 6, np.random.default_rng(0))
    assert [part.tolist() for part in parts] == own
    with pytest.raises(ConfigError, match="need more than the 4 training samples there are"):
        IID().split(labels, 6, np.random.default_rng(0))


def test_a_run_goes_on_with_its_own_division_alone(tmp_path: Path) -> None:
    begun = asked({"out": str(tmp_path)}, {"partition": OWN}).config
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(to_yaml(begun))
    on = {"resume": str(tmp_path / "run")}
    assert asked(on, {"partition": OWN}).config.partition == begun.partition
    for other in (SORTED[::-1], [[0], [1]]):
        with pytest.raises(ConfigError, match=r"partition: is not what .*run began with; accepted: the same, or none"):
            asked(on, {"partition": other})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({0: [0], 2: [1]}, "partition: has 2 clients, of which none is 1; accepted: numbers from 0 to 1 for keys"),
        ([], "partition: has no clients; accepted: sample indices of each client"),
        ([[0], [1, 1]], "partition: client 1 has 1 twice; accepted: whole numbers from 0 up, each once"),
        ([[0], [2, -1]], "partition: client 1 has -1; accepted: whole numbers from 0 up, each once"),
        ([[0.5]], r"partition: client 0 has list \[0.5\]; accepted: whole numbers from 0 up, each once"),
        ([[True, False]], r"partition: client 0 has list \[True, False\]; accepted: whole numbers"),
        ([0, 1], "partition: client 0 has int 0; accepted: whole numbers from 0 up, each once"),
        ([[[0]]], r"partition: client 0 has list \[\[0\]\]; accepted: whole numbers"),
        ([[0, [1]]], r"partition: client 0 has list \[0, \[1\]\]; accepted: whole numbers"),
        (["ab"], "partition: client 0 has str 'ab'; accepted: whole numbers"),
        ([np.zeros((2, 2), int)], r"partition: client 0 has ndarray array\(\[\[0, 0\], \[0, 0\]\]\); accepted: whole"),
        ([torch.zeros(2, requires_grad=True)], r"partition: client 0 has Tensor tensor"),
        ([{0}], r"partition: client 0 has set \{0\}; accepted: whole numbers"),
    ],
)
def test_what_is_no_division_is_told(given: object, message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=message):
        asked({"out": str(tmp_path)}, {"partition": given})
    assert not list(tmp_path.iterdir())


def test_other_clients_than_it_has_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="clients: 7, and partition has 2; accepted: as many, or none"):
        asked({"out": str(tmp_path), "clients": 7}, {"partition": [[0], [1]]})


def test_samples_of_several_clients_and_of_none_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {**SMALL, "partition": [[0, 1, 2], [1, 2, 3]], "cohort": 2, "rounds": 1, "out": str(tmp_path)}
    del given["clients"]
    fl_ddp.simulate(given)
    told = "--partition: of 1437 training samples 2 are with several clients, 1433 with none"
    assert told in capsys.readouterr().out
    fl_ddp.simulate({**given, "partition": [[*range(700)], [*range(700, 1437)]], "name": "whole", "local_test": 0.1})
    assert "--partition:" not in capsys.readouterr().out
