"""Clients as the data name them: who has which samples, with a test set of their own or merged, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import SMALL, finished, numbers, resumed, simulated

from fl_ddp.config.command_line import from_mapping
from fl_ddp.errors import ConfigError
from fl_ddp.federation import Federation, build_federation
from fl_ddp.partitions.natural import Natural
from fl_ddp.protocol import Indices, Owners
from fl_ddp.ranks.collectives import Ranks

TRAIN = ("9", "10", "9", "2", "10", "9", "2", "10", "9", "11")
TEST = ("2", "9", "11", "2", "3")


def lists(parts: list[Indices]) -> list[list[int]]:
    return [part.tolist() for part in parts]


def founded(folder: Path, **options: object) -> Federation:
    """Of samples whose one feature is their place, the training set's first."""
    places = np.arange(15, dtype=np.float32)[:, None]
    arrays = {"x_train": places[:10], "x_test": places[10:], "y_train": np.arange(10) % 2, "y_test": np.arange(5) % 2}
    arrays |= {"client_train": np.array(TRAIN, int)}
    if options.pop("tests_named", True):
        arrays["client_test"] = np.array(TEST, int)
    if options.pop("named", True) is False:
        del arrays["client_train"], arrays["client_test"]
    np.savez(folder / "data.npz", **arrays)  # type: ignore[arg-type]
    given = {"data": str(folder / "data.npz"), "partition": "Natural", "model.hidden": 4, "device": "cpu"}
    return build_federation(from_mapping(given | options), Ranks(0, 1, torch.device("cpu")))


def test_each_sample_is_its_own_clients_in_the_order_of_numbers(tmp_path: Path) -> None:
    built = founded(tmp_path, clients=4, **{"partition.min_size": 1})
    assert lists(built.clients) == [[3, 6], [0, 2, 5, 8], [1, 4, 7], [9]]
    assert not any(map(len, built.local_test))


def test_fewer_clients_are_the_first_by_name_and_small_ones_are_left_out(tmp_path: Path) -> None:
    assert lists(founded(tmp_path, clients=2).clients) == [[3, 6], [0, 2, 5, 8]]
    assert lists(founded(tmp_path, clients=2, **{"partition.min_size": 3}).clients) == [[0, 2, 5, 8], [1, 4, 7]]


def test_own_test_samples_are_those_that_the_data_name(tmp_path: Path) -> None:
    own = {"local_test": 0.01, "local_test_from": "test"}
    assert lists(founded(tmp_path, clients=4, **own).local_test) == [[0, 3], [1], [], [2]]
    assert lists(founded(tmp_path, clients=1, **own).local_test) == [[0, 3]]
    three = founded(tmp_path, clients=2, **own, **{"partition.min_size": 3})
    assert lists(three.local_test) == [[1], []], "of the clients that take part"


def test_own_test_samples_are_drawn_where_the_data_do_not_name_them(tmp_path: Path) -> None:
    own = {"local_test": 0.9, "local_test_from": "test", "tests_named": False}
    assert list(map(len, founded(tmp_path, clients=3, **own).local_test)) == [2, 4, 3]
    aside = founded(tmp_path, clients=3, local_test=0.5)
    assert list(map(len, aside.local_test)) == [1, 2, 2] and list(map(len, aside.clients)) == [1, 2, 1]


def test_samples_of_both_sets_are_merged_with_their_clients(tmp_path: Path) -> None:
    built = founded(tmp_path, clients=5, local_test=0.3, **{"data.merge": True})
    whole = [sorted([*own, *kept]) for own, kept in zip(lists(built.clients), lists(built.local_test), strict=True)]
    assert whole == [[3, 6, 10, 13], [14], [0, 2, 5, 8, 11], [1, 4, 7], [9, 12]]


def test_a_run_leaves_the_names_of_its_clients(tmp_path: Path) -> None:
    assert founded(tmp_path, clients=2, **{"partition.min_size": 3}).client_names == ("9", "10")
    assert founded(tmp_path, clients=2, partition="IID").client_names == ()
    run = {**SMALL, "data": f"{tmp_path}/data.npz", "partition": "Natural", "clients": 3, "cohort": 2, "rounds": 0}
    stored = json.loads((simulated(run, tmp_path) / "partition.json").read_text())
    assert stored["names"] == ["2", "9", "10"] and stored["clients"] == [[3, 6], [0, 2, 5, 8], [1, 4, 7]]
    from_file = {**run, "partition": "FromFile", "partition.path": f"{tmp_path}/run/partition.json", "name": "again"}
    again = json.loads((simulated(from_file, tmp_path) / "partition.json").read_text())
    assert again["clients"] == stored["clients"] and "names" not in again


@pytest.mark.slow
def test_ranks_and_a_resume_change_no_bits(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    rows = (f"{random.normal():.3f},{random.normal():.3f},{i % 3},u{i % 12}" for i in range(240))
    (tmp_path / "mine.csv").write_text("\n".join(["a,b,label,who", *rows]))
    natural = {**SMALL, "data": f"{tmp_path}/mine.csv", "data.client": "who", "partition": "Natural", "local_test": 0.3}
    alone = numbers(simulated({**natural, "local_test_from": "test"}, tmp_path / "alone"))
    finished({**natural, "local_test_from": "test", "out": tmp_path / "two"}, 2, tmp_path)
    begun = simulated({**natural, "local_test_from": "test", "rounds": 1}, tmp_path / "begun")
    assert numbers(tmp_path / "two" / "run") == alone == numbers(resumed(begun, rounds=natural["rounds"]))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 5}, "--clients: 5, but the data name 4 clients; accepted: 1 to 4"),
        (
            {"clients": 4, "partition.min_size": 2},
            "--clients: 4, but the data name 3 clients of at least 2 training samples (--partition.min_size); "
            "accepted: 1 to 3",
        ),
        (
            {"clients": 2, "named": False},
            "--partition: Natural, but the data do not name the client of each training sample; "
            "accepted: data that do, or another --partition",
        ),
        (
            {"clients": 2, "tests_named": False, "data.merge": True, "local_test": 0.5},
            "--partition: Natural, but the data do not name the clients of 5 samples; "
            "accepted: data that do, which with --data.merge are those of the test set, too",
        ),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{re.escape(message)}$"):
        founded(tmp_path, **options)


def test_other_partitions_care_for_no_names(tmp_path: Path) -> None:
    built = founded(tmp_path, clients=5, partition="IID", tests_named=False, **{"data.merge": True, "local_test": 0.5})
    assert sorted(np.concatenate([*built.clients, *built.local_test]).tolist()) == list(range(15))


def test_no_seed_changes_it() -> None:
    owners = Owners(("a", "b"), np.array([1, 0, 1]))
    parts = [Natural(owners=owners).split(np.zeros(3, int), 2, np.random.default_rng(seed)) for seed in range(2)]
    assert lists(parts[0]) == lists(parts[1]) == [[1], [0, 2]]


def test_own_test_samples_of_unknown_clients_are_nobodys() -> None:
    natural = Natural(owners=Owners(("a", "b"), np.array([0, 1, 1]), np.array([0, -1, 1])), num_clients=2)
    own = natural.local_test("test", 3)
    assert own is not None and lists(own) == [[0], [2]]
