"""Banks of examples: what stays, what is drawn."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fl_ddp.clients.bank import NAMES, balanced, bank_of, drawn, empty_bank, joined, merged, shared_out, without
from fl_ddp.engine.seeds import uniform
from fl_ddp.protocol import Tensors


def bank(labels: list[int], task: int = 0, noise: Tensor | None = None) -> Tensors:
    """Of examples whose x is their number."""
    size = len(labels)
    x = torch.arange(size, dtype=torch.float64)[:, None]
    return bank_of(x, torch.tensor(labels), task, torch.arange(size) / size if noise is None else noise)


def test_a_bank_keeps_the_rows_of_the_highest_priority() -> None:
    kept = merged(empty_bank(3, 1, torch.zeros(1, dtype=torch.float64)), bank([5, -1, 7, 8, 9], task=2))
    assert kept["y"].tolist() == [9, 8, 7]
    assert kept["x"][:, 0].tolist() == [4, 3, 2]
    assert kept["task"].tolist() == [2, 2, 2]


def test_a_bank_that_is_not_full_has_no_rows_but_those_that_came() -> None:
    kept = merged(empty_bank(4, 1, torch.zeros(1, dtype=torch.float64)), bank([5, -1, 7]))
    assert kept["y"].tolist() == [7, 5, -1, -1] and kept["task"].tolist() == [0, 0, -1, -1]


def test_rows_of_all_that_ever_came_are_as_likely() -> None:
    times = torch.zeros(40)
    for trial in range(2000):
        held = empty_bank(10, 1, torch.zeros(1, dtype=torch.float64))
        for part in range(4):
            noise = uniform(torch.tensor(1000 * part + trial), 0, [10])
            more = bank([0] * 10, part, noise)
            held = merged(held, more | {"x": more["x"] + 10 * part})
        times[held["x"][:, 0].long()] += 1
    expected = 2000 * 10 / 40
    assert (times - expected).abs().max() < 5 * (expected * 0.75) ** 0.5


def test_a_bank_that_is_shared_out_keeps_as_many_of_each_class_of_each_task() -> None:
    first, second = bank([0, 0, 0, 0, -1, 1], 0), bank([1, 0, -1, 1, 1], 1)
    kept = shared_out(joined(first, second), 6, num_classes=2)
    kinds = [(task, y, int(x)) for task, y, x in zip(kept["task"].tolist(), kept["y"].tolist(), kept["x"], strict=True)]
    # the best of each, then the second best; the last ones by their priority: 3/5 of task 2 is before 2/6 of task 1
    assert sorted(kinds[:4]) == [(0, 0, 3), (0, 1, 5), (1, 0, 1), (1, 1, 4)]
    assert kinds[4:] == [(1, 1, 3), (0, 0, 2)]


def test_what_a_shared_out_bank_has_no_rows_for_stays_empty() -> None:
    kept = shared_out(bank([1, -1, 0, -1, 1]), 5, num_classes=2)
    assert kept["y"].tolist() == [1, 0, 1, -1, -1] and kept["x"][:, 0].tolist() == [4, 2, 0, 0, 0]
    assert kept["priority"].tolist()[3:] == [-1, -1] and kept["task"].tolist()[3:] == [-1, -1]
    nothing = empty_bank(3, 1, torch.zeros(1))
    assert all(torch.equal(shared_out(nothing, 3, 2)[name], nothing[name]) for name in NAMES)


def test_rows_of_a_kind_are_as_likely_and_a_late_kind_finds_room() -> None:
    """Forty rows of one kind come in four parts, then ten of another; there is room for ten."""
    times, late = torch.zeros(40), 0
    for trial in range(2000):
        held = empty_bank(10, 1, torch.zeros(1, dtype=torch.float64))
        for part in range(5):
            more = bank([0] * 10, part // 4, uniform(torch.tensor(1000 * part + trial), 0, [10]))
            held = shared_out(joined(held, more | {"x": more["x"] + 10 * part}), 10, num_classes=1)
        early = held["x"][held["task"] == 0, 0].long()
        times[early] += 1
        late += 10 - len(early)
    assert late == 2000 * 5
    expected = 2000 * 5 / 40
    assert (times - expected).abs().max() < 5 * (expected * 0.875) ** 0.5


def test_rows_that_are_gone() -> None:
    left = without(bank([1, 2, 3]), torch.tensor([True, False, True]))
    assert left["y"].tolist() == [-1, 2, -1] and left["task"].tolist() == [-1, 0, -1]
    assert left["x"][:, 0].tolist() == [0, 1, 0]
    assert merged(left, bank([9]))["y"].tolist()[0] in (2, 9) and 1 not in merged(left, bank([9]))["y"].tolist()


def test_drawn_rows_are_others_and_at_most_as_many_as_there_are() -> None:
    both = {name: torch.stack([t, t]) for name, t in bank([4, -1, 6, 7]).items()}
    noise = uniform(torch.tensor([1, 2]), 0, [4])
    some = drawn(both, noise, 3, torch.tensor([2.0, 9.0]))
    assert some["y"].shape == (2, 3) and (some["y"] >= 0).sum(1).tolist() == [2, 3]
    assert sorted(some["y"][1].tolist()) == [4, 6, 7]
    assert (some["x"][some["y"] < 0] == 0).all()  # an example that is not drawn does not travel
    assert drawn(both, noise, 4)["y"][0, 3] == -1
    assert drawn(both, noise, 0)["x"].shape == (2, 0, 1)
    firsts = {int(drawn(both, uniform(torch.tensor([k, k]), 0, [4]), 1)["y"][0, 0]) for k in range(50)}
    assert firsts == {4, 6, 7}


def test_a_balanced_draw_has_as_much_of_each_class_of_each_task() -> None:
    labels = [0] * 80 + [1] * 15 + [-1] * 5
    first, second = bank(labels, 0), bank([0] * 3 + [1] * 97, 1)
    both = {name: torch.cat([first[name], second[name]]) for name in first}
    some = balanced(both, uniform(torch.tensor(3), 0, [40_000]), num_classes=2)
    kinds = torch.bincount(some["task"] * 2 + some["y"], minlength=4)
    assert (kinds - 10_000).abs().max() <= 1
    of_few = some["x"][(some["task"] == 1) & (some["y"] == 0), 0]
    assert (torch.bincount(of_few.long(), minlength=3) - 10_000 / 3).abs().max() <= 2


def test_a_balanced_draw_of_as_many_as_there_are_has_them_all() -> None:
    """Where classes have as many rows each; by independent draws a third would be missed."""
    whole = bank([0] * 50 + [-1] * 7 + [1] * 50)
    some = balanced(whole, uniform(torch.tensor(3), 0, [200]), num_classes=2)
    assert torch.equal(torch.unique(some["x"][:, 0].long()), torch.tensor([*range(50), *range(57, 107)]))
    of_fewer = torch.stack([balanced(whole, uniform(torch.tensor(k), 0, [5]), 2)["x"][:, 0] for k in range(2000)])
    times = torch.bincount(of_fewer.flatten().long(), minlength=107)
    assert (times[50:57] == 0).all()
    assert (times[whole["y"] >= 0] - 100).abs().max() < 50


@pytest.mark.parametrize("rows", [1, 5])
def test_nothing_is_drawn_of_an_empty_bank(rows: int) -> None:
    nothing = empty_bank(rows, 2, torch.zeros(1))
    assert balanced(nothing, torch.rand(3), 4)["y"].tolist() == [-1, -1, -1]
