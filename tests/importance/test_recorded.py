"""Importance passes whose step is recorded once and replayed: a stand-in for CUDA's graph runs it again."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from importance_bench import PASSES, Bench, bench
from recordings import Recorded, Refused, Stop, recording
from torch import Tensor, nn

from fl_ddp.engine.graphed import Recorder
from fl_ddp.errors import InterruptedRunError

SHAPE, SIZES, LANES = (1, 6, 6), (120, 1, 50, 7), 3
GROUPS: tuple[list[int], ...] = ([0, 1], [3], [2, 0, 3], [])
"""Of clients with three chunks, one, three and none, with lanes that are padded."""
ALLOWED = torch.tensor([True, False, True])


def partly_covered() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 3))


STEPS = {"empirical": 13, "exact": 33, "three draws": 39, "batch means": 33, "norms": 13}
"""Chunks of all groups times blocks of classes, or draws, of found_in()."""


def replayed(b: Bench, record: Recorder) -> Bench:
    """The same bench, whose steps are recorded."""
    return b._replace(work=recording(b.work, record))


def passed(b: Bench, name: str, ids: list[int], theta: Tensor) -> Tensor:
    """What a pass over a group's samples gives."""
    return PASSES[name](b.group(ids, LANES), theta, b.model)


def found_in(b: Bench, name: str) -> list[Tensor]:
    """Of each group, at other parameters; then all labels again, some of them alone."""
    at = [b.theta(LANES) * (1 + number / 4) for number in range(len(GROUPS))]
    every = [passed(b, name, ids, theta) for ids, theta in zip(GROUPS, at, strict=True)]
    some = b._replace(work=replace(b.work, allowed=ALLOWED))
    return [*every, passed(some, name, GROUPS[2], at[2]), passed(some, name, GROUPS[2], at[0][0])]


@pytest.mark.parametrize("name", PASSES)
def test_replayed_passes_have_the_bits_of_single_steps(name: str) -> None:
    plain, record = bench(partly_covered, SHAPE, SIZES), Recorded()
    expected, found = found_in(plain, name), found_in(replayed(plain, record), name)
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert all(bool(each.any()) == (ids != []) for each, ids in zip(expected, GROUPS, strict=False))
    assert not torch.equal(expected[4], expected[2]), "labels that are not allowed count"
    assert record.made == 2, "one recording with all labels, and one with some"
    assert record.steps == STEPS[name]


@pytest.mark.slow
def test_compiled_steps_have_the_same_bits_replayed() -> None:
    plain = bench(partly_covered, SHAPE, SIZES, dtype=torch.float32, compile=True)
    expected, found = (found_in(b, "empirical") for b in (plain, replayed(plain, Recorded())))
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_what_a_pass_gives_stays_as_it_is_in_the_next_one() -> None:
    b = replayed(bench(partly_covered, SHAPE, SIZES), Recorded())
    first = passed(b, "empirical", [0, 1], b.theta(LANES))
    kept = first.clone()
    assert not torch.equal(passed(b, "empirical", [0, 1], 2 * b.theta(LANES)), kept)
    assert torch.equal(first, kept)


def test_a_pass_that_fails_to_be_recorded_takes_others_along() -> None:
    tried, plain = list[str](), bench(partly_covered, SHAPE, SIZES)

    def first_alone(function: Callable[[], None]) -> Callable[[], object]:
        tried.append("once")
        return function if 1 < len(tried) < 4 else lambda: function()

    b, theta = replayed(plain, first_alone), plain.theta(LANES)
    for name in ("empirical", "norms", "empirical", "norms"):
        assert torch.equal(passed(b, name, [0, 1], theta), passed(plain, name, [0, 1], theta))
    assert len(tried) == 4, "two of the norms, whose second failure is kept, and the other one again"


def test_what_cannot_be_recorded_is_told_once_and_sums_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    plain, refuse = bench(partly_covered, SHAPE, SIZES), Refused("CUDA out of memory. Tried to allocate\nmore of it")
    b, groups = replayed(plain, refuse), ([0, 1], [2], [0, 1])
    with caplog.at_level(logging.INFO):
        found = [passed(b, "empirical", ids, plain.theta(LANES)) for ids in groups]
    expected = [passed(plain, "empirical", ids, plain.theta(LANES)) for ids in groups]
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))
    assert refuse.tried == 1
    assert [record.getMessage() for record in caplog.records] == [
        "the importance step cannot be recorded (RuntimeError: CUDA out of memory. Tried to allocate); "
        "its kernels are launched singly"
    ]


def test_a_stop_is_heard_before_every_chunk_and_leaves_the_next_pass_alone() -> None:
    plain, record, stop = bench(partly_covered, SHAPE, SIZES), Recorded(), Stop(2)
    b = replayed(plain, record)
    b = b._replace(work=replace(b.work, check=stop))
    theta = plain.theta(LANES)
    with pytest.raises(InterruptedRunError):
        passed(b, "empirical", [0, 1], theta)
    assert record.steps == stop.last
    stop.calls, stop.last = 0, 100
    assert torch.equal(passed(b, "empirical", [0, 1], theta), passed(plain, "empirical", [0, 1], theta))
    assert stop.calls == record.steps - 2 == 3
