"""A division as a file: what a run writes, and what it reads of a user's own."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fl_ddp.errors import ConfigError
from fl_ddp.partitions.client_dirichlet import ClientDirichlet
from fl_ddp.partitions.dirichlet import Dirichlet
from fl_ddp.partitions.from_file import FromFile
from fl_ddp.partitions.local_split import local_split
from fl_ddp.partitions.saved import SavedPartition, read_partition, refuse_other_division, write_partition
from fl_ddp.protocol import Indices


def generator() -> np.random.Generator:
    return np.random.default_rng(0)


def labels_of_ten(num_samples: int = 1000) -> Indices:
    return np.arange(num_samples) % 10


def test_test_samples_of_the_test_set_go_through_a_partition_file(tmp_path: Path) -> None:
    path = tmp_path / "partition.json"
    aside = [np.array([0, 3]), np.array([0, 5])]  # of another set than the clients' own, and shared
    write_partition(path, SavedPartition([np.array([0]), np.array([1])], aside, local_test_from="test"))
    partition = FromFile(path=str(path))
    assert len(partition.split(labels_of_ten(2), 2, generator())) == 2
    read = partition.local_test("test", 6)
    assert read is not None and [part.tolist() for part in read] == [[0, 3], [0, 5]]
    with pytest.raises(ConfigError, match="local_test: sample 5 does not exist; accepted: 0 to 4"):
        partition.local_test("test", 5)
    with pytest.raises(ConfigError, match=r"--local_test_from: train is not .*partition.json's test"):
        partition.local_test("train", 6)


def test_partition_file_round_trip_and_use_as_partition(tmp_path: Path) -> None:
    labels, path = labels_of_ten(), tmp_path / "partition.json"
    clients, local_test = local_split(Dirichlet().split(labels, 7, generator()), 0.25, generator())
    write_partition(path, SavedPartition(clients, local_test, "Dirichlet", 3, len(labels)))
    saved = read_partition(path)
    assert (saved.kind, saved.seed, saved.num_samples) == ("Dirichlet", 3, 1000)
    assert saved.local_test is not None
    for written, read in ((clients, saved.clients), (local_test, saved.local_test)):
        assert all(np.array_equal(a, b) for a, b in zip(written, read, strict=True))
    again = FromFile(path=str(path)).split(labels, 7, generator())
    assert all(np.array_equal(a, b) for a, b in zip(clients, again, strict=True))
    assert [entry.name for entry in tmp_path.iterdir()] == ["partition.json"]


def test_partition_file_of_overlapping_clients_round_trips(tmp_path: Path) -> None:
    labels, path = labels_of_ten(), tmp_path / "partition.json"
    clients, local_test = local_split(ClientDirichlet().split(labels, 7, generator()), 0.25, generator())
    write_partition(path, SavedPartition(clients, local_test, "ClientDirichlet", 3, len(labels)))
    assert json.loads(path.read_text())["overlap"] is True
    again = FromFile(path=str(path)).split(labels, 7, generator())
    assert all(np.array_equal(a, b) for a, b in zip(clients, again, strict=True))


def test_partition_file_of_only_clients_is_sorted(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text('{"clients": [[5, 1], [0]]}')
    parts = FromFile(path=str(path)).split(labels_of_ten(6), 2, generator())
    assert [part.tolist() for part in parts] == [[1, 5], [0]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"clients": [[0, 1], [2, 10]]}, "sample 10 does not exist; accepted: 0 to 9"),
        ({"clients": [[0, 1], [2]], "local_test": [[], [10]]}, "sample 10 does not exist; accepted: 0 to 9"),
        ({"clients": [[0, 1], [2, -1]]}, "client 1 has -1"),
        ({"clients": [[0]], "local_test": [[1]], "local_test_from": "else"}, "'else'; accepted: train or test"),
        ({"clients": [[0]], "local_test": [[1, 1]], "local_test_from": "test"}, "sample 1 is given twice"),
        ({"clients": [[0, 1], [2, True]]}, "client 1 has True"),
        ({"clients": [[0, 1], [2, 3.0]]}, "client 1 has 3.0"),
        ({"clients": [[0, 1], [2, 10**30]]}, "client 1 has 10000"),
        ({"clients": [[0, 1], [2, 1]]}, "sample 1 is given twice"),
        ({"clients": [[0, 1]], "local_test": [[1]]}, "sample 1 is given twice"),
        (
            {"clients": [[0, 1, 1], [2]], "overlap": True},
            "sample 1 is given twice; accepted: each index once in a client",
        ),
        ({"clients": [[0], [2]], "local_test": [[1], [0]], "overlap": True}, "sample 0 is given twice"),
        ({"clients": [[0], [2]], "overlap": 1}, "overlap is 1; accepted: bool"),
        ({"clients": [[0, 1]], "local_test": []}, "local_test has 0 clients where clients has 1"),
        ({"clients": [[0], [1], [2]]}, "divides among 3 clients, --clients is 2"),
        ({"clients": [[0, 1], []]}, "FromFile gives client 1 only 0 samples"),
        ({"clients": [[0], [1]], "num_samples": 60000}, "divides 60000 samples"),
        ({"clients": [[0], [1]], "num_samples": "10"}, "num_samples is '10'"),
        ({"clients": [0, 1]}, "clients is not a list of lists"),
        ({"parts": [[0], [1]]}, "has no key clients"),
        ([[0], [1]], "holds no division in JSON (it holds no JSON object); accepted: {"),
    ],
)
def test_wrong_partition_file_is_one_line(tmp_path: Path, content: object, message: str) -> None:
    path = tmp_path / "wrong.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ConfigError) as error:
        FromFile(path=str(path)).split(labels_of_ten(10), 2, generator())
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("content", [b'{"clients": [[0,', b"\xff\xfe", b"[" * 100_000, None])
def test_unreadable_partition_file_is_one_line_that_names_it(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "wrong.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"wrong\.json: holds no division in JSON \(") as error:
        read_partition(path)
    assert "\n" not in str(error.value)


def test_a_run_goes_on_with_the_same_division_alone(tmp_path: Path) -> None:
    clients, aside = [np.array([0, 1]), np.array([2, 3])], [np.array([4]), np.array([5])]
    path, known = tmp_path / "partition.json", SavedPartition(clients, aside)
    write_partition(path, known)
    refuse_other_division(path, known)
    for other in (SavedPartition(clients[::-1], aside), SavedPartition(clients, aside[::-1]), SavedPartition(clients)):
        with pytest.raises(ConfigError, match=r"partition\.json: the run was started with another division of the"):
            refuse_other_division(path, other)
