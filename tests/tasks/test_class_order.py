"""The order in which classes come: it numbers them in the run, and divides nothing otherwise."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from launching import simulated

from fl_ddp.check.runs import SOLO
from fl_ddp.config.command_line import from_mapping
from fl_ddp.engine.seeds import Purpose, generator
from fl_ddp.errors import ConfigError, RunError
from fl_ddp.federation import Federation, build_federation
from fl_ddp.streams.static import Static
from fl_ddp.tasks.of_stream import order_in

GROUPS = {
    "data": "digits", "partition": "Dirichlet", "clients": 4, "local_test": 0.2, "compile": False, "figures": False,
    "device": "cpu", "model.hidden": 4, "stream": "ClassGroups", "stream.tasks": 3, "stream.first": 4,
    "stream.task_rounds": 1,
}  # fmt: skip
RANDOM = {**GROUPS, "stream.order": "random"}


def federation(settings: dict[str, object]) -> Federation:
    return build_federation(from_mapping(settings), SOLO)


def order_of(built: Federation) -> list[int]:
    """The data's classes in the run's order, by their names."""
    return [int(name) for name in built.names]


@pytest.mark.parametrize("seed", [0, 5])
def test_tasks_have_the_next_classes_of_a_drawn_order(seed: int) -> None:
    plain, built = federation({**GROUPS, "seed": seed}), federation({**RANDOM, "seed": seed})
    order = generator(seed, Purpose.CLASS_ORDER).permutation(10).tolist()
    assert order_of(built) == order and order_of(plain) == [*range(10)]
    assert built.classes == tuple(map(str, order[:8]))
    for task, mine in enumerate((order[:4], order[4:6], order[6:8])):
        world = built.worlds.at(task)
        parts = np.concatenate(world.clients)
        assert set(plain.labels[parts]) == set(mine), "the data's own labels"
        assert len(parts) == sum(np.isin(plain.labels[part], mine).sum() for part in built.clients)
        assert {order[label] for label in world.tests[task].samples.y.tolist()} == set(mine)


def test_an_order_leaves_the_division_and_the_samples_as_they_are() -> None:
    plain, built = federation(GROUPS), federation(RANDOM)
    for ours, theirs in ((built.clients, plain.clients), (built.local_test, plain.local_test)):
        assert all(map(np.array_equal, ours, theirs))
    order = order_of(built)
    assert [order[label] for label in built.labels] == plain.labels.tolist()
    here, there = built.worlds.at(2).train, plain.worlds.at(2).train
    own = here.y >= 0
    assert here.x.equal(there.x) and own.any()
    assert torch.tensor(order)[here.y[own]].tolist() == plain.labels[own.numpy()].tolist()


def test_the_order_is_of_the_streams_seed_if_it_has_one() -> None:
    orders = [order_of(federation({**RANDOM, "seed": run, "stream.seed": own})) for run in (1, 2) for own in (None, 7)]
    assert orders[0] != orders[2] and orders[1] == orders[3] != orders[0]


def test_files_name_the_datas_classes(tmp_path: Path) -> None:
    """Counts of a file are of the data's classes, whatever the run calls them."""
    rows = ["client,0,1,2,3,4,5,6,7,8,9", *(f"{client},0,0,0,5,0,0,0,0,0,0" for client in range(4))]
    (tmp_path / "counts.csv").write_text("\n".join(rows))
    given = {"partition": "FromCounts", "partition.path": str(tmp_path / "counts.csv"), "local_test": 0.0}
    built = federation({**RANDOM, **given, "stream.tasks": 1, "stream.first": 10})
    assert {built.names[label] for part in built.clients for label in built.labels[part]} == {"3"}


def test_a_run_has_its_columns_by_the_classes_names(tmp_path: Path) -> None:
    run = simulated({**RANDOM, "rounds": 3, "name": "run"}, tmp_path)
    with (run / "metrics.csv").open(newline="") as file:
        columns = [name.partition("/")[2] for name in next(csv.reader(file)) if name.startswith("accuracy/")]
    order = generator(0, Purpose.CLASS_ORDER).permutation(10).tolist()
    assert columns == [str(label) for label in order[:8]]
    summary = json.loads((run / "summary.json").read_text())
    assert len(summary["task_accuracy"]) == 4 and summary["class_order"] == [str(label) for label in order]
    plain = simulated({**GROUPS, "rounds": 1, "name": "plain"}, tmp_path)
    assert "class_order" not in json.loads((plain / "summary.json").read_text())
    known = simulated({**RANDOM, "rounds": 1, "name": "known", "init": str(run)}, tmp_path)
    assert (known / "initial.safetensors").is_file()


@pytest.mark.parametrize(
    "settings",
    [
        {"local_test_from": "test"},
        {"data.merge": True},
        {"partition": "Classes", "partition.classes_per_client": 3},
        {"stream.scenario": "domain"},
    ],
    ids=str,
)
def test_whatever_is_divided_is_divided_as_without_it(settings: dict[str, object]) -> None:
    plain, built = federation({**GROUPS, **settings}), federation({**RANDOM, **settings})
    for ours, theirs in ((built.clients, plain.clients), (built.local_test, plain.local_test)):
        assert all(map(np.array_equal, ours, theirs))
    assert built.counts == plain.counts
    tests = built.worlds.at(2).tests[2].samples
    if settings.get("stream.scenario") != "domain":
        assert {built.names[label] for label in tests.y.tolist()} == set(built.names[6:8])


def test_classes_that_clients_lose_are_the_datas(tmp_path: Path) -> None:
    (tmp_path / "lost.csv").write_text("client,class,round,count\n0,3,1,0\n")
    one = {"stream.tasks": 1, "stream.first": 10, "partition": "IID", "class_reduction": str(tmp_path / "lost.csv")}
    plain, built = (federation({**settings, **one}) for settings in (GROUPS, RANDOM))
    ours, theirs = (each.worlds.at(0).clients[0] for each in (built, plain))
    assert np.array_equal(ours, theirs) and len(ours) < len(plain.clients[0])
    assert "3" not in {built.names[label] for label in built.labels[ours]}


def test_weights_of_another_order_are_told_of(tmp_path: Path) -> None:
    run = simulated({**GROUPS, "rounds": 1, "name": "run"}, tmp_path)
    told = [federation({**settings, "init": str(run)}).remarks for settings in (GROUPS, RANDOM)]
    assert [any("--init" in remark for remark in remarks) for remarks in told] == [False, True]


class Ordered(Static):
    """A stream of a user's own."""

    given: object = None

    def class_order(self, num_classes: int, rng: np.random.Generator) -> Sequence[int] | None:
        return self.given  # type: ignore[return-value]


@pytest.mark.parametrize(
    "given", [[0, 1], [0, 1, 1], [[0, 1, 2]], [1, 2, 3], [0.0, 1.0, 2.0], [0, None, 2], [[0, 1], [2]], "abc", 3]
)
def test_an_order_has_each_class_once(given: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ordered, "given", given)
    message = r": class_order of Ordered: gives .*; accepted: each of 0 to 2 once, the data's classes, or None$"
    with pytest.raises(ConfigError, match=message):
        order_in(Ordered(), 3, np.random.default_rng(0))


class Careless(Static):
    """Draws its order from numpy's global generator."""

    def class_order(self, num_classes: int, rng: np.random.Generator) -> Sequence[int] | None:
        return [int(label) for label in np.random.permutation(num_classes)]


def test_an_order_is_drawn_from_the_generator_that_it_is_given() -> None:
    with pytest.raises(
        RunError, match=r"class_order of Careless draws from numpy's .*; draw from rng, which it is given$"
    ):
        order_in(Careless(), 3, np.random.default_rng(0))


def test_an_order_may_be_any_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in ([2, 0, 1], (2, 0, 1), np.array([2, 0, 1], np.int32)):
        monkeypatch.setattr(Ordered, "given", given)
        found = order_in(Ordered(), 3, np.random.default_rng(0))
        assert found is not None and found.tolist() == [2, 0, 1] and found.dtype == np.int64
