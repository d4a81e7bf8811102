"""Steps that follow each other without Python: by a stand-in of the compiled loop, and by real ones."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from step_bench import PLANS, SIZES, Bench, Penalised, bench, mlp
from torch import Tensor

from fl_ddp.compiler import repeated
from fl_ddp.compiler.repeated import in_a_row, times
from fl_ddp.engine import looped, stacks
from fl_ddp.engine.lanes import Item
from fl_ddp.engine.looped import Loops, StepInput, loops_on
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.step import STEPS, Steps
from fl_ddp.errors import CompilerError, InterruptedRunError, RunError
from fl_ddp.optimizers.adam import Adam
from fl_ddp.optimizers.schedule import Schedule
from fl_ddp.protocol import Tensors, Trained
from fl_ddp.ranks.threads import Workers

LANES = 4
IDS = [4, 1, 0]
"""Clients of 22, 1 and 13 samples; one lane is padded."""
FACTORS = np.linspace(0.5, 2, LANES)
OF_LANES = {
    "lr of lanes": replace(PLANS["momentum"], lr_factor=FACTORS),
    "lr of lanes over steps": replace(
        PLANS["momentum"], lr_factor=FACTORS, over_steps=Schedule("cosine", 1.0, least=0.1)
    ),
}
ALL = PLANS | OF_LANES
OFTEN = ("clipped Adam", "momentum and weight decay", "augmented", *OF_LANES)
NAMES = [*OFTEN, *(pytest.param(name, marks=pytest.mark.slow) for name in ALL if name not in OFTEN)]

Step = Callable[[StepInput], None]
WORKERS = Workers(2)
"""They stay, as a run's do: torch 2.11 crashes if it compiles after a thread has ended in which it compiled before."""


class Repeated:
    """In place of a compiled loop; counts steps but for those on copies, with which a loop is tried."""

    def __init__(self) -> None:
        self.made, self.steps = 0, 0

    def __call__(self, one: Step, what: str, **_: object) -> Step:
        self.made += 1
        self.steps -= 1

        def again(given: StepInput) -> None:
            for _ in range(times()):
                self.steps += 1
                one(given)

        return again


@pytest.fixture
def repeats(monkeypatch: pytest.MonkeyPatch) -> Repeated:
    """A stand-in, for stacks of a few steps."""
    found = Repeated()
    # what is made once must not be found by another test
    monkeypatch.setattr(looped, "next_step", inspect.unwrap(looped.next_step))
    monkeypatch.setattr(looped, "compiled", found)
    monkeypatch.setattr(stacks, "AT_ONCE", 4 * 5 * 32 * 4 * 3)
    return found


def alone(monkeypatch: pytest.MonkeyPatch, yes: bool) -> None:
    monkeypatch.setattr(looped, "ALONE", 0 if yes else 2**60)


def in_loops(b: Bench) -> Bench:
    return b._replace(work=replace(b.work, loops=Loops()))


def check_same_bits(found: Trained, expected: Trained) -> None:
    assert torch.equal(found.theta, expected.theta) and torch.equal(found.loss, expected.loss)


@pytest.mark.parametrize("name", NAMES)
def test_steps_of_lanes_together_have_the_bits_of_single_ones(
    name: str, repeats: Repeated, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch, False)
    plain, plan = bench(lambda: mlp(0.4), Penalised, torch.float32), ALL[name]
    check_same_bits(in_loops(plain).train(plan, IDS, LANES), plain.train(plan, IDS, LANES))
    assert repeats.made == 1
    assert repeats.steps == int(plain.group(plan, IDS, LANES).steps.max())


@pytest.mark.parametrize("name", NAMES)
def test_a_lane_alone_is_as_in_a_group_of_its_own_and_takes_its_own_steps(
    name: str, repeats: Repeated, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch, True)
    plain, plan = bench(lambda: mlp(0.4), Penalised, torch.float32), ALL[name]
    found = in_loops(plain).train(plan, IDS, LANES)
    for lane, client in enumerate(IDS):
        own = replace(plan, lr_factor=FACTORS[lane : lane + 1]) if plan.lr_factor is not None else plan
        expected = plain.train(own, [client])
        check_same_bits(Trained(found.theta[lane : lane + 1], found.loss[lane : lane + 1], {}), expected)
    assert torch.equal(found.theta[-1], plain.server["theta"].float())
    assert repeats.made == 1
    assert repeats.steps == int(plain.group(plan, IDS, LANES).steps.sum())


@pytest.mark.usefixtures("repeats")
def test_lanes_that_go_on_alone_may_be_spread_in_any_order_over_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, True)
    plain, plan, taken = bench(lambda: mlp(0.4), Penalised, torch.float32), PLANS["three epochs"], list[int]()

    def spread(work: Callable[[Item], None], parts: Iterable[Item], /) -> None:
        found = list(parts)
        taken.append(len(found))
        WORKERS.map(work, reversed(found))

    b = plain._replace(work=replace(plain.work, loops=Loops(), spread=spread))
    check_same_bits(b.train(plan, IDS, LANES), in_loops(plain).train(plan, IDS, LANES))
    assert set(taken) == {LANES}


@pytest.mark.usefixtures("repeats")
@pytest.mark.parametrize("apart", [False, True])
def test_what_optimizers_carry_goes_on(apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, apart)
    plan, found = replace(PLANS["Adam"], optimizer=Adam(keep=True)), []
    for b in (plain := bench(method=Penalised), in_loops(plain)):
        carried: Tensors = {name: torch.zeros_like(b.memory["c"][:LANES]) for name in ("exp_avg", "exp_avg_sq")}
        carried[STEPS] = torch.zeros(LANES, dtype=torch.float64)
        for number in range(3):
            group = b.group(plan, IDS, LANES, number)
            group.carried.optimizer = carried
            trained = group.train(b.server["theta"], b.method, b.server, {"c": b.memory["c"][:LANES]})
            assert group.carried.optimizer is not None
            carried = group.carried.optimizer
        found.append([trained.theta, trained.loss, *carried.values()])
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


def test_a_stop_is_heard_several_times_a_second(repeats: Repeated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looped, "_TURN", 0.0)
    alone(monkeypatch, True)
    calls = 0

    def check() -> None:
        nonlocal calls
        calls += 1
        if calls > 5:
            raise InterruptedRunError

    plain = bench(method=Penalised)
    b = in_loops(plain)
    with pytest.raises(InterruptedRunError):
        b._replace(work=replace(b.work, check=check)).train(PLANS["batch of one"], [4, 0])
    assert repeats.steps == 5
    check_same_bits(b.train(PLANS["batch of one"], [4]), plain.train(PLANS["batch of one"], [4]))


def test_a_turn_grows_to_what_a_stop_may_wait_for(repeats: Repeated, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looped, "_TURN", 60.0)
    calls: list[int] = []
    b = in_loops(bench(method=Penalised))
    b = b._replace(work=replace(b.work, check=lambda: calls.append(repeats.steps)))
    b.train(PLANS["batch of one"], [4])
    assert calls[:2] == [0, 1] and repeats.steps == SIZES[4] > len(calls)


def test_what_cannot_be_compiled_so_is_told_once_and_trains_all_the_same(
    repeats: Repeated, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(one: Step, what: str, **_: object) -> Step:
        def again(given: StepInput) -> None:
            one(given)  # as what cannot be compiled is run, to see whose mistake it is
            raise CompilerError("it cannot be compiled\nmore of it")

        return again

    monkeypatch.setattr(looped, "compiled", refuses)
    plain, plan = bench(method=Penalised), PLANS["momentum"]
    b = in_loops(plain)
    with caplog.at_level(logging.INFO):
        for _ in range(2):
            check_same_bits(b.train(plan, IDS, LANES), plain.train(plan, IDS, LANES))
    assert [record.getMessage() for record in caplog.records] == [
        "local steps are taken one by one (CompilerError: it cannot be compiled)"
    ]


def close(found: Trained, expected: Trained) -> None:
    for one, other in ((found.theta, expected.theta), (found.loss, expected.loss)):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("apart", [False, True])
def test_compiled_loops_of_two_threads_end_where_eager_steps_do(apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    alone(monkeypatch, apart)
    monkeypatch.setattr(stacks, "AT_ONCE", 4 * 5 * 32 * 8 * 3)
    plain, plan = bench(lambda: mlp(0.4), Penalised), PLANS["momentum and weight decay"]
    b = plain._replace(work=replace(plain.work, compile=True, loops=loops_on(torch.device("cpu"), compile=True)))
    groups = ([4, 1, 0], [3, 2], [0, 4, 3], [1])
    found = WORKERS.map(lambda ids: b.train(plan, ids, LANES), groups)
    loops = b.work.loops
    assert loops is not None and [type(each) for each in loops._made.values()] == [looped._Loop]
    for trained, ids in zip(found, groups, strict=True):
        close(trained, plain.train(plan, ids, LANES))


@pytest.mark.slow
def test_a_torch_that_calls_what_it_compiled_otherwise_takes_steps_one_by_one(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated, "_UNLOCKED", "something else")
    plain, plan = bench(), replace(PLANS["one epoch"], lr=0.05)
    b = plain._replace(work=replace(plain.work, compile=True, loops=Loops()))
    with caplog.at_level(logging.INFO, "fl_ddp.engine.looped"):
        close(b.train(plan, IDS, LANES), plain.train(plan, IDS, LANES))
    assert "torch's C++ wrapper is not one that is known" in caplog.text


def test_a_step_that_refuses_what_it_is_given_is_no_reason_to_take_it_by_itself(
    repeats: Repeated, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuses(one: Step, what: str, **_: object) -> Step:
        def again(given: StepInput) -> None:
            raise RunError("own.py:3: loss gives a tensor [3] for one client")

        return again

    monkeypatch.setattr(looped, "compiled", refuses)
    with caplog.at_level(logging.INFO), pytest.raises(RunError, match="gives a tensor"):
        in_loops(bench()).train(PLANS["momentum"], IDS, LANES)
    assert not caplog.records and not repeats.steps


def test_all_steps_are_taken_where_torch_is_told_to_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looped, "next_step", inspect.unwrap(looped.next_step))
    plain, plan = bench(method=Penalised), PLANS["three epochs"]
    b = plain._replace(work=replace(plain.work, compile=True, loops=Loops()))
    with torch.compiler.set_stance("force_eager"):
        check_same_bits(b.train(plan, IDS, LANES), plain.train(plan, IDS, LANES))


def test_a_number_of_calls_is_a_threads_own_and_ends_with_its_block() -> None:
    with in_a_row(3), ThreadPoolExecutor(1) as pool:
        assert (times(), pool.submit(times).result()) == (3, 1)
    with pytest.raises(RunError), in_a_row(5):
        raise RunError("it")
    assert times() == 1


def test_loops_are_of_compiled_steps_on_a_cpu() -> None:
    assert loops_on(torch.device("cpu"), compile=False) is loops_on(torch.device("cuda", 0), compile=True) is None
    assert loops_on(torch.device("cpu"), compile=True) is not None


def test_samples_of_a_methods_making_are_looped_over_too(repeats: Repeated) -> None:
    plain, found = bench(method=Penalised), []
    x, y = torch.rand(2, 7, 2, 4, 4, dtype=torch.float64), torch.ones(2, 7, dtype=torch.int64)
    for b in (plain, in_loops(plain)):
        group = b.group(PLANS["momentum"], [0, 1]).over(x, y)
        found.append(group.train(b.server["theta"], b.method, b.server, {"c": b.memory["c"][:2]}))
    check_same_bits(*found)
    assert repeats.made == 1


@pytest.mark.usefixtures("repeats")
def test_what_lies_behind_the_last_step_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, plan = bench(lambda: mlp(0.4), Penalised), OF_LANES["lr of lanes over steps"]
    expected = plain.train(plan, IDS, LANES)
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    deterministic = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)  # new memory is full of nan and of the largest whole numbers
    try:
        assert torch.empty(1).isnan()
        check_same_bits(in_loops(plain).train(plan, IDS, LANES), expected)
    finally:
        torch.use_deterministic_algorithms(deterministic)


@pytest.mark.parametrize(("targets", "steps"), [((), stacks.MOST), ((10**4,), 10)])
def test_a_stack_is_small_whatever_a_step_is_given(targets: tuple[int, ...], steps: int) -> None:
    samples = Samples(torch.rand(3, 2), torch.rand(3, *targets))
    taken = Steps(torch.zeros(100, 4, 5, dtype=torch.int64), torch.zeros(100, 4, dtype=torch.int64))
    for few in (100, 2):
        parts = taken._replace(rows=taken.rows[:few], key=taken.key[:few])
        found = next(iter(stacks.stacks(parts, samples, torch.float32, alike=True)))
        assert {len(part) for part in found.drawn} == {steps} and found.size == min(few, steps)
        assert found.drawn.x.nbytes + found.drawn.y.nbytes <= stacks.AT_ONCE


def test_a_stack_is_as_long_as_all_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "AT_ONCE", 3 * 2 * 5 * (32 * 8 + 8))
    group = bench().group(PLANS["one epoch"], [4, 1])
    steps = group._steps_of(PLANS["one epoch"].batches(group._order_keys, group._samples), group._order_keys)
    found = list(group._stacks(steps, alike=True))
    assert [stack.size for stack in found] == [3, 2]
    assert {tuple(len(part) for part in stack.drawn) for stack in found} == {(3,) * 5}
    assert [len(stack.drawn.x) for stack in group._stacks(steps._replace(rows=steps.rows[:2]), alike=False)] == [2]
    singly: list[Tensor] = [drawn.x for drawn in group._draws(steps)]
    assert torch.equal(torch.stack(singly), torch.cat([stack.drawn.x[: stack.size] for stack in found]))
