"""Tasks of domains, whose names data have beside their samples."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from launching import SMALL, options, simulated

from fl_ddp.check.runs import SOLO
from fl_ddp.config.command_line import from_mapping, parse
from fl_ddp.datasets.owners import owners_of
from fl_ddp.errors import ConfigError
from fl_ddp.federation import build_federation
from fl_ddp.protocol import Indices, Inputs, Owners
from fl_ddp.streams.domains import Domains

TRAIN, TEST = ["photo", "art", "photo", "sketch", "art", "photo"], ["art", "photo", "art", "sketch"]
OWNERS = owners_of(TRAIN, TEST)
LABELS = np.array([0, 1, 0, 1, 0, 1])


@pytest.mark.parametrize("order", [(), ("sketch", "photo"), ("photo", "sketch", "art")])
def test_a_task_has_the_samples_of_one_domain(order: tuple[str, ...]) -> None:
    stream = Domains(order=order).of_owners(OWNERS)
    names = order or ("art", "photo", "sketch")
    assert stream.task_names == names and stream.num_tasks == len(names)
    for task, name in enumerate(names):
        assert stream.of_task(task, LABELS, "train").tolist() == [i for i, each in enumerate(TRAIN) if each == name]
        assert stream.of_task(task, LABELS[:4], "test").tolist() == [i for i, each in enumerate(TEST) if each == name]


@pytest.mark.parametrize(
    ("owners", "order", "message"),
    [
        (
            None,
            (),
            "--stream: Domains, but the data do not say of which domain samples are; accepted: ImageFolder with --",
        ),
        (
            owners_of(TRAIN),
            (),
            "--stream: Domains, but the data do not say of which domain test samples are; accepted: ",
        ),
        (OWNERS, ("art", "ink"), "--stream.order: ink is no domain of the data; accepted: art, photo, sketch"),
        (OWNERS, ("art", "art"), "--stream.order: names art twice; accepted: each domain once"),
        (
            owners_of(TRAIN, TEST[:3]),
            (),
            "--stream.order: the domain sketch has no test samples; accepted: those that have: art, photo",
        ),
        (
            owners_of(TRAIN[:3], TEST),
            ("sketch",),
            "--stream.order: the domain sketch has no training samples",
        ),
    ],
)
def test_what_there_is_not_is_told(owners: Owners | None, order: tuple[str, ...], message: str) -> None:
    with pytest.raises(ConfigError) as told:
        Domains(order=order).of_owners(owners)
    assert str(told.value).startswith(message)


def test_samples_without_a_domain_are_of_no_task() -> None:
    owners = Owners(("a", "b"), np.array([0, -1, 1]), np.array([-1, 0, 1]))
    stream = Domains().of_owners(owners)
    assert [stream.of_task(task, LABELS[:3], "train").tolist() for task in (0, 1)] == [[0], [2]]
    assert [stream.of_task(task, LABELS[:3], "test").tolist() for task in (0, 1)] == [[1], [2]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str], list[str]]:
    """A file of three domains, a class each of whose samples lie elsewhere, and each sample's domain."""
    rng, place = np.random.default_rng(0), tmp_path_factory.mktemp("domains") / "domains.npz"
    train, test = (rng.choice(["art", "photo", "sketch"], size).tolist() for size in (240, 90))
    y_train, y_test = (rng.integers(0, 3, size) for size in (240, 90))

    def inputs(y: Indices, domains: list[str]) -> Inputs:
        turn = np.array([len(name) for name in domains])
        noise: Inputs = rng.normal(0, 0.3, (len(y), 6)).astype(np.float32)
        noise += np.eye(6)[(y + turn) % 6]
        return noise

    np.savez(
        place,
        x_train=inputs(y_train, train),
        y_train=y_train,
        x_test=inputs(y_test, test),
        y_test=y_test,
        client_train=train,
        client_test=test,
    )
    return place, train, test


def test_a_run_is_the_same_as_one_of_lists_of_their_samples(
    data: tuple[Path, list[str], list[str]], tmp_path: Path
) -> None:
    place, *domains = data
    order = ["sketch", "art", "photo"]
    lists = {
        origin: [[i for i, each in enumerate(names) if each == name] for name in order]
        for origin, names in zip(("train", "test"), domains, strict=True)
    }
    (tmp_path / "lists.json").write_text(json.dumps(lists))
    of_both = {**SMALL, "data": str(place), "partition": "IID", "stream.task_rounds": 2, "rounds": 6}
    ours = simulated({**of_both, "stream": "Domains", "stream.order": order}, tmp_path / "ours")
    theirs = simulated(
        {**of_both, "stream": "FromFile", "stream.path": str(tmp_path / "lists.json")}, tmp_path / "theirs"
    )
    tasks = (ours / "tasks.csv").read_text()
    assert tasks == (theirs / "tasks.csv").read_text() and len(tasks.splitlines()) > 9


def test_clients_may_be_the_domains_themselves(data: tuple[Path, list[str], list[str]]) -> None:
    place, train, _ = data
    of_run = {**SMALL, "data": str(place), "partition": "Natural", "clients": 3, "cohort": 3}
    federation = build_federation(from_mapping({**of_run, "stream": "Domains"}), SOLO)
    assert "tasks: art, photo, sketch" in federation.remarks
    for task, name in enumerate(("art", "photo", "sketch")):
        parts = federation.worlds.clients_in(task)
        assert [len(part) for part in parts] == [train.count(name) if i == task else 0 for i in range(3)]


def test_tests_that_clients_give_are_of_no_domain(data: tuple[Path, list[str], list[str]]) -> None:
    of_run = {**SMALL, "data": str(data[0]), "data.merge": True, "local_test": 0.25, "partition": "IID"}
    with pytest.raises(ConfigError, match=r"--data.merge: true, but tasks of Domains are tested on .*accepted: false"):
        build_federation(from_mapping({**of_run, "stream": "Domains"}), SOLO)


def test_domains_are_named_by_numbers_too_and_the_summary_has_them(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    numbers = np.array([0, 15, 30] * 20)
    x, y = rng.random((60, 4), np.float32), rng.integers(0, 2, 60)
    np.savez(
        tmp_path / "turned.npz", x_train=x, y_train=y, client_train=numbers, x_test=x, y_test=y, client_test=numbers
    )
    asked = {"data": str(tmp_path / "turned.npz"), "partition": "IID", "stream": "Domains", "stream.task_rounds": 1}
    run = simulated({**SMALL, **asked, "stream.order": [30, 0], "rounds": 2}, tmp_path)
    assert json.loads((run / "summary.json").read_text())["task_names"] == ["30", "0"]
    assert parse([*options(asked), "--stream.order", "30,0"]).stream.init_args["order"] == (30, 0), "whole numbers"


def test_an_owner_is_told_of_among_many() -> None:
    owners = owners_of([str(i) for i in range(600)], [str(i) for i in range(599)])
    with pytest.raises(ConfigError) as told:
        Domains().of_owners(owners)
    assert str(told.value).endswith(", 18, 19 and 579 more") and len(str(told.value)) < 200
