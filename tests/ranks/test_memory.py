from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from torch import Tensor

from fl_ddp.protocol import Tensors
from fl_ddp.ranks import memory as memory_module
from fl_ddp.ranks.memory import Beside, ClientMemory, OnDevice, OnHost

CPU = torch.device("cpu")


def fresh() -> ClientMemory:
    return ClientMemory({"c": torch.zeros(3), "rounds": torch.tensor(0)}, CPU)


def ids(*clients: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(clients, np.int64)


def rows(*firsts: float) -> dict[str, Tensor]:
    return {"c": torch.tensor(firsts)[:, None].expand(-1, 3), "rounds": torch.arange(len(firsts)) + 1}


def test_a_client_starts_with_the_initial_memory() -> None:
    taken = fresh().take(ids(5, 2**40))
    assert torch.equal(taken["c"], torch.zeros(2, 3)) and taken["rounds"].tolist() == [0, 0]


def test_what_is_put_is_taken_by_id_in_any_company() -> None:
    memory = fresh()
    memory.put(ids(7, 2), rows(1.0, 2.0))
    memory.put(ids(9), rows(3.0))
    taken = memory.take(ids(2, 4, 9, 7))
    assert taken["c"][:, 0].tolist() == [2, 0, 3, 1]
    assert taken["rounds"].tolist() == [2, 0, 1, 1]


def test_padded_lanes_take_the_initial_memory_and_put_nothing() -> None:
    memory = fresh()
    memory.put(ids(3, -1, -1), rows(1.0, 8.0, 9.0))
    assert memory.take(ids(3, -1))["c"][:, 0].tolist() == [1, 0]
    assert memory.stacked()["ids"].tolist() == [3]


def test_memory_is_a_copy_on_the_way_in_and_out() -> None:
    memory = fresh()
    given = {"c": torch.ones(1, 3), "rounds": torch.tensor([4])}
    memory.put(ids(1), given)
    given["c"].fill_(9)
    memory.take(ids(1, 2))["c"].fill_(7)
    assert memory.take(ids(1, 2))["c"][:, 0].tolist() == [1, 0]
    assert memory.initial["c"].tolist() == [0, 0, 0]


def test_a_put_replaces_what_was_there() -> None:
    memory = fresh()
    memory.put(ids(1), rows(1.0))
    memory.put(ids(1), rows(2.0))
    assert memory.take(ids(1))["c"][0].tolist() == [2, 2, 2]


def test_stacked_memory_is_by_ascending_id_and_restores_the_same() -> None:
    memory = fresh()
    memory.put(ids(70, 2, -1, 30), rows(1.0, 2.0, 3.0, 4.0))
    stacked = memory.stacked()
    assert stacked["ids"].tolist() == [2, 30, 70]
    assert stacked["c"].tolist() == [[2] * 3, [4] * 3, [1] * 3]
    stored = {
        int(client): {name: stacked[name][row] for name in ("c", "rounds")} for row, client in enumerate(stacked["ids"])
    }
    again = ClientMemory(memory.initial, CPU, stored)
    before, after = (m.take(ids(2, 5, 30, 70)) for m in (memory, again))
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_a_method_without_memory_has_none() -> None:
    memory = ClientMemory({}, CPU)
    memory.put(ids(1, 2), {})
    assert memory.take(ids(1, 2)) == {}
    assert set(memory.stacked()) == {"ids"}
    assert fresh().stacked()["ids"].tolist() == []


class Copies(Beside):
    """Copies of the host alone, which are told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pinned(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        self.told.append(f"pinned {list(shape)}")
        return torch.empty(*shape, dtype=dtype)

    @contextmanager
    def taking(self) -> Iterator[Tensors]:
        self.told.append("taken")
        yield {}

    @contextmanager
    def putting(self, memory: Tensors) -> Iterator[None]:
        self.told.append("put")
        yield

    def finish(self) -> None:
        self.told.append("finished")


INITIAL = {"c": torch.full((3,), 0.5), "rounds": torch.tensor(0)}


@pytest.mark.parametrize("place", [OnDevice(INITIAL, CPU, 40), OnHost(INITIAL, CPU, Copies())])
def test_other_places_remember_the_same(place: OnDevice | OnHost) -> None:
    usual, random = OnHost(INITIAL, CPU, None), np.random.default_rng(3)
    for _ in range(30):
        clients = np.where(np.arange(7) < 5, random.choice(40, 7, replace=False), -1)
        clients = random.permutation(clients).tolist()
        memory = {"c": torch.from_numpy(random.normal(size=(7, 3))).float(), "rounds": torch.arange(7)}
        for each in (usual, place):
            each.make_room(clients)
            each.put(clients, {name: t.clone() for name, t in memory.items()})
        asked = [*random.choice(40, 4).tolist(), -1]
        expected, found = usual.take(asked), place.take(asked)
        assert all(torch.equal(found[name], t) for name, t in expected.items())
        found["c"].fill_(9)
    assert place.clients() == usual.clients()
    ids = usual.clients()
    assert len(ids) > 32, "more than a slab"
    assert all(torch.equal(place.stacked(ids)[name], t) for name, t in usual.stacked(ids).items())


def test_copies_beside_the_training_go_to_slabs_and_a_checkpoint_waits_for_them() -> None:
    copies = Copies()
    memory = OnHost(INITIAL, CPU, copies)
    for first in (0, 2):
        memory.make_room(range(first, first + 33))
        memory.put(range(first, first + 33), rows(*range(33)))
    memory.take([1])
    assert memory.stacked([1, 2])["c"][:, 0].tolist() == [1, 0]
    slab = ["pinned [32, 3]", "pinned [32]"]
    assert copies.told == [*slab, *slab, "put", "put", "taken", "finished"]


def test_clients_memory_stays_on_a_device_that_has_room_for_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("meta")
    for room, place in ((10 * 20, OnDevice), (10 * 20 - 1, OnHost)):
        monkeypatch.setattr(memory_module, "room_on", lambda _, room=room: room)
        assert isinstance(ClientMemory(INITIAL, device, most=4)._kept, place)
    assert isinstance(ClientMemory(INITIAL, CPU, most=4)._kept, OnHost)
