from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from fl_ddp.ranks.memory import ClientMemory

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
