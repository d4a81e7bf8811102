from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from fl_ddp.engine.plan import Plan, num_held_out
from fl_ddp.engine.seeds import keys
from fl_ddp.protocol import Indices

SIZES = st.lists(st.integers(0, 30), min_size=1, max_size=5)
BATCH = st.integers(1, 12)


def epochs(count: float, batch_size: int = 4, *, drop_last: bool = False) -> Plan:
    return Plan(batch_size, count, None, 0.1, drop_last=drop_last)


def steps(count: int, batch_size: int = 4, *, drop_last: bool = False) -> Plan:
    return Plan(batch_size, None, count, 0.1, drop_last=drop_last)


def clients(sizes: list[int]) -> list[Indices]:
    """Disjoint sample indices, in no order, so that a position taken for an index is seen."""
    indices = np.random.default_rng(0).permutation(sum(sizes)) + 100
    return np.split(indices, np.cumsum(sizes)[:-1])


def batches(plan: Plan, samples: list[Indices], seed: int = 0) -> Indices:
    out = plan.batches(keys(seed, np.arange(len(samples))), samples)
    assert out.dtype == np.int64 and out.flags.c_contiguous
    return out


def counts(lane: Indices) -> Counter[int]:
    return Counter(lane[lane >= 0].tolist())


@settings(deadline=None, max_examples=100)
@given(SIZES, BATCH, st.integers(1, 3))
def test_whole_epochs_take_every_sample_once_each(sizes: list[int], batch_size: int, whole: int) -> None:
    samples = clients(sizes)
    found = batches(epochs(whole, batch_size), samples)
    for lane, mine in enumerate(samples):
        per_epoch = -(-len(mine) // batch_size)
        for epoch in range(whole):
            part = found[epoch * per_epoch : (epoch + 1) * per_epoch, lane]
            assert counts(part) == Counter(mine.tolist())
        assert (found[whole * per_epoch :, lane] == -1).all()


@settings(deadline=None, max_examples=100)
@given(SIZES, BATCH, st.floats(0.01, 3, allow_nan=False), st.booleans())
def test_steps_are_those_of_the_batches_full_but_for_an_epochs_last(
    sizes: list[int], batch_size: int, count: float, drop_last: bool
) -> None:
    plan, samples = epochs(count, batch_size, drop_last=drop_last), clients(sizes)
    found = batches(plan, samples)
    num_steps = plan.num_steps(np.array(sizes))
    assert len(found) == np.max(num_steps)
    for lane, n in enumerate(sizes):
        filled = (found[:, lane] >= 0).sum(1)
        assert (filled[: num_steps[lane]] > 0).all() and (filled[num_steps[lane] :] == 0).all()
        per_epoch = n // batch_size if drop_last else -(-n // batch_size)
        ends = {(epoch + 1) * per_epoch - 1 for epoch in range(4)} | {num_steps[lane] - 1}
        short = {int(i) for i in np.flatnonzero((filled > 0) & (filled < batch_size))}
        assert short <= (set() if drop_last else ends)
        # real samples come first, so that what is masked is a tail
        assert (np.diff((found[:, lane] < 0).astype(int), axis=1) >= 0).all()


@settings(deadline=None, max_examples=100)
@given(SIZES, BATCH, st.floats(0.01, 3, allow_nan=False))
def test_a_fraction_of_an_epoch_takes_that_fraction_of_the_samples(
    sizes: list[int], batch_size: int, count: float
) -> None:
    samples = clients(sizes)
    found = batches(epochs(count, batch_size), samples)
    for lane, mine in enumerate(samples):
        seen, n = counts(found[:, lane]), len(mine)
        assert set(seen) <= set(mine.tolist())
        if not n:
            assert not seen
            continue
        assert seen.total() == max(math.floor(count) * n + int(np.rint((count % 1) * n)), 1)
        assert set(seen.values()) <= {math.floor(count), math.floor(count) + 1}


@settings(deadline=None, max_examples=60)
@given(SIZES, BATCH, st.one_of(st.floats(0.1, 3), st.integers(1, 9).map(lambda s: -s)), st.booleans())
def test_a_clients_batches_do_not_depend_on_its_company(
    sizes: list[int], batch_size: int, length: float, drop_last: bool
) -> None:
    plan = epochs(length, batch_size, drop_last=drop_last) if length > 0 else steps(-int(length), batch_size)
    samples = clients(sizes)
    found = batches(plan, samples)
    order_keys = keys(0, np.arange(len(sizes)))
    for lane in range(len(sizes)):
        alone = plan.batches(order_keys[lane : lane + 1], samples[lane : lane + 1])[:, 0]
        assert np.array_equal(found[: len(alone), lane], alone)
        assert (found[len(alone) :, lane] == -1).all()


@settings(deadline=None, max_examples=60)
@given(SIZES, BATCH, st.integers(1, 2))
def test_drop_last_leaves_out_less_than_a_batch_of_each_epoch(sizes: list[int], batch_size: int, whole: int) -> None:
    samples = clients(sizes)
    found = batches(epochs(whole, batch_size, drop_last=True), samples)
    for lane, mine in enumerate(samples):
        per_epoch = len(mine) // batch_size
        for epoch in range(whole):
            seen = counts(found[epoch * per_epoch : (epoch + 1) * per_epoch, lane])
            assert seen.total() == per_epoch * batch_size and set(seen.values()) <= {1}


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 30), BATCH, st.integers(1, 20), st.booleans())
def test_fixed_steps_go_on_into_further_epochs_in_a_new_order(
    n: int, batch_size: int, count: int, drop_last: bool
) -> None:
    plan = steps(count, batch_size, drop_last=drop_last)
    per_epoch = n // batch_size if drop_last else -(-n // batch_size)
    found = batches(plan, clients([n]))[:, 0]
    assume(per_epoch > 0)
    assert len(found) == count
    whole = epochs(-(-count // per_epoch), batch_size, drop_last=drop_last)
    assert np.array_equal(found, batches(whole, clients([n]))[:count, 0])


@pytest.mark.parametrize("drop_last", [False, True])
def test_fixed_steps_of_a_client_without_a_batch_are_none(drop_last: bool) -> None:
    found = batches(steps(3, 4, drop_last=drop_last), clients([0, 3, 9]))
    assert (found[:, 0] == -1).all() and (found[:, 2] >= 0).any(1).all()
    assert (found[:, 1] == -1).all() == drop_last


def test_one_sample_is_trained_on_however_short_the_epoch() -> None:
    plan, samples = epochs(0.3, 4), clients([1, 2, 0])
    assert plan.num_steps(np.array([1, 2, 0])).tolist() == [1, 1, 0]
    assert (batches(plan, samples) >= 0).sum((0, 2)).tolist() == [1, 1, 0]


def test_a_fraction_counts_the_samples_of_its_last_epoch() -> None:
    assert epochs(1.5, 4).num_steps(np.array([10, 4, 1])).tolist() == [5, 2, 1]
    assert epochs(0.5, 4, drop_last=True).num_steps(np.array([10, 16, 4])).tolist() == [1, 2, 0]


def test_what_is_held_out_is_rounded_and_never_nothing_nor_all() -> None:
    assert num_held_out(np.array([0, 1, 2, 7, 8, 100]), 0.2).tolist() == [0, 0, 1, 1, 2, 20]
    assert num_held_out(np.array([1, 2, 3]), 0.9).tolist() == [0, 1, 2]


def test_other_keys_give_other_orders() -> None:
    orders = {batches(epochs(1, 20), clients([20]), seed).tobytes() for seed in range(50)}
    assert len(orders) == 50


@pytest.mark.parametrize("plan", [epochs(3, 20), steps(3, 20)])
def test_every_epoch_has_an_order_of_its_own(plan: Plan) -> None:
    found = batches(plan, clients([20]))
    assert len({found[epoch, 0].tobytes() for epoch in range(3)}) == 3


def test_no_clients_have_no_batches() -> None:
    assert epochs(1).batches(keys(0, np.zeros(0, np.int64)), []).shape == (0, 0, 4)
    assert batches(epochs(1), clients([0, 0])).shape == (0, 2, 4)


def test_whoever_is_late_does_a_whole_epoch_or_all_of_a_part_of_one() -> None:
    late, draws = np.array([True, False]), np.array([0.9, 0.9])
    short, long = (Plan(10, each, None, 0.1).cut_short(late, draws).epochs for each in (0.4, 3.5))
    assert np.asarray(short).tolist() == [0.4, 0.4] and np.asarray(long).tolist() == [3.0, 3.5]
