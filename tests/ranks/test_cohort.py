from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import combinations, permutations
from math import ceil

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fl_ddp.ranks.cohort import agreed_lanes, auto_lanes, cohort, deal, group_cost, owner
from fl_ddp.ranks.collectives import Ranks


def padded_share(size: int, lanes: int, num_ranks: int) -> float:
    """Padded lanes among all lanes when clients of like cost are dealt to ranks and cut into groups."""
    hands = deal(np.arange(size), np.ones(size, np.int64), num_ranks)
    groups = sum(-(-len(hand) // lanes) for hand in hands)
    return 1 - size / (groups * lanes)


@settings(deadline=None)
@given(st.integers(0, 2**40), st.integers(0, 10**6), st.integers(1, 500), st.data())
def test_a_cohort_is_ascending_without_repeats_and_a_function_of_seed_and_round(
    seed: int, index: int, clients: int, data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, clients))
    ids = cohort(seed, index, np.arange(clients), size)
    assert ids.dtype == np.int64 and len(ids) == size
    assert (np.diff(ids) > 0).all() and ids[0] >= 0 and ids[-1] < clients
    assert np.array_equal(ids, cohort(seed, index, np.arange(clients), size))


@settings(deadline=None)
@given(st.integers(0, 2**40), st.lists(st.integers(1, 10**6), min_size=1, max_size=60), st.data())
def test_a_cohort_by_samples_has_no_repeats_and_is_a_function_of_seed_and_round(
    seed: int, samples: list[int], data: st.DataObject
) -> None:
    size = data.draw(st.integers(1, len(samples)))
    present = np.arange(len(samples)) * 3 + 1
    ids = cohort(seed, 4, present, size, np.array(samples))
    assert ids.dtype == np.int64 and len(ids) == size
    assert (np.diff(ids) > 0).all() and set(ids) <= set(present)
    assert np.array_equal(ids, cohort(seed, 4, present, size, np.array(samples)))


@pytest.mark.parametrize("size", [1, 2, 3])
def test_each_draw_is_in_proportion_to_the_samples_of_those_that_are_left(size: int) -> None:
    """Against the probability of each cohort, summed over the orders in which it may be drawn."""
    samples, rounds = np.array([1, 2, 5, 12]), 5_000
    found: Counter[tuple[int, ...]] = Counter(
        tuple(map(int, cohort(0, index, np.arange(4), size, samples))) for index in range(rounds)
    )
    for ids in combinations(range(4), size):
        due = 0.0
        for order in permutations(ids):
            left, chance = float(samples.sum()), 1.0
            for each in order:
                chance *= samples[each] / left
                left -= samples[each]
            due += chance
        assert abs(found[ids] / rounds - due) < 4.5 * np.sqrt(due * (1 - due) / rounds), ids


def test_cohorts_of_other_rounds_and_seeds_differ() -> None:
    found = {tuple(cohort(seed, index, np.arange(1000), 10)) for seed in range(20) for index in range(20)}
    assert len(found) == 400


@pytest.mark.parametrize(("clients", "size"), [(10, 1), (10, 3), (10, 9), (100, 10)])
def test_every_client_and_every_pair_is_drawn_equally_often(clients: int, size: int) -> None:
    rounds = 4000
    drawn = np.zeros((rounds, clients))
    for index in range(rounds):
        drawn[index, cohort(7, index, np.arange(clients), size)] = 1
    share = size / clients
    # a count has variance rounds * share * (1 - share); the sum over clients of its squares is chi-square with
    # clients - 1 degrees of freedom times clients / (clients - 1)
    chi = ((drawn.sum(0) - rounds * share) ** 2).sum() / (rounds * share * (1 - share)) * (clients - 1) / clients
    assert chi < clients - 1 + 4 * np.sqrt(2 * (clients - 1))
    pairs = (drawn.T @ drawn)[np.triu_indices(clients, 1)] / rounds
    chance = share * (size - 1) / (clients - 1)
    assert np.abs(pairs - chance).max() < 5 * np.sqrt(max(chance * (1 - chance), 1e-12) / rounds)


def test_a_cohort_of_all_clients_is_all_of_them() -> None:
    assert cohort(0, 5, np.arange(7), 7).tolist() == list(range(7))


@settings(deadline=None)
@given(st.lists(st.integers(0, 100), min_size=1, max_size=60), st.integers(1, 6))
def test_dealing_gives_every_client_once_and_balances_the_work(cost: list[int], num_ranks: int) -> None:
    ids = np.arange(len(cost)) * 3 + 11
    hands = deal(ids, np.array(cost), num_ranks)
    assert len(hands) == num_ranks
    assert sorted(np.concatenate(hands).tolist()) == ids.tolist()
    of = dict(zip(ids.tolist(), cost, strict=True))
    loads = [sum(of[i] for i in hand.tolist()) for hand in hands]
    # the fullest hand was the emptiest before its last client came
    assert max(loads) - min(loads) <= max(cost)
    for hand in hands:
        mine = [of[i] for i in hand.tolist()]
        assert mine == sorted(mine, reverse=True) and hand.dtype == np.int64


def test_a_rank_with_long_clients_gets_fewer() -> None:
    hands = deal(np.arange(11), np.array([1, 1, 1, 10, *[1] * 7]), 2)
    assert [hand.tolist() for hand in hands] == [[3], [0, 1, 2, 4, 5, 6, 7, 8, 9, 10]]


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(1, 6))
def test_clients_of_like_cost_are_dealt_evenly(count: int, num_ranks: int) -> None:
    for each in (0, 7):
        sizes = [len(hand) for hand in deal(np.arange(count), np.full(count, each), num_ranks)]
        assert max(sizes) - min(sizes) <= 1


def test_owners_are_ranks_with_like_numbers_of_clients() -> None:
    counts = np.bincount(owner(np.arange(101), 4), minlength=4)
    assert counts.tolist() == [26, 25, 25, 25]


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_lanes_are_at_most_the_cohort(device: str) -> None:
    for size in range(1, 201):
        lanes = auto_lanes(size, device, 10_000)
        assert 1 <= lanes <= size


def test_lanes_of_a_cpu_pad_few_on_one_two_and_four_ranks() -> None:
    shares = {
        size: np.mean([padded_share(size, auto_lanes(size, "cpu", 10_000), num_ranks) for num_ranks in (1, 2, 4)])
        for size in range(1, 201)
    }
    assert np.mean([*shares.values()]) < 0.06
    # a few clients on 4 ranks leave every rank with part of a group
    assert max(shares.values()) < 0.4
    assert max(share for size, share in shares.items() if size > 26) < 0.15


def test_ten_clients_on_a_cpu_take_five_lanes_whatever_the_model() -> None:
    assert {auto_lanes(10, "cpu", size) for size in (100, 10**6, 10**8)} == {5}
    assert auto_lanes(1, "cpu", 100) == auto_lanes(1, "cuda", 100) == 1


@pytest.mark.parametrize("size", [8, 10, 20, 50, 100, 200, 500])
@pytest.mark.parametrize("num_params", [159_010, 500_000, 1_626_442, 11_000_000])
def test_lanes_of_a_gpu_take_no_number_of_ranks_twice_its_least_time(size: int, num_params: int) -> None:
    group = group_cost(num_params)

    def seconds(lanes: int, num_ranks: int) -> int:
        return ceil(ceil(size / num_ranks) / lanes) * (group + lanes)

    lanes = auto_lanes(size, "cuda", num_params)
    ratios = [seconds(lanes, n) / min(seconds(each, n) for each in range(1, 65)) for n in (1, 2, 4, 8)]
    assert max(ratios) < 2
    assert np.mean(ratios) < 1.4


def test_large_models_pad_little_on_eight_gpus_and_small_ones_launch_seldom() -> None:
    assert auto_lanes(50, "cuda", 11_000_000) == 7  # 50 clients on 8 ranks are 7 or 6 on each
    assert auto_lanes(50, "cuda", 1_626_442) == auto_lanes(50, "cuda", 159_010) == 25


@dataclass(frozen=True)
class _Third(Ranks):
    """The third of four ranks, whose first one has fewer lanes."""

    def add(self, buffer: Tensor) -> Tensor:
        return buffer + torch.tensor([4.0, 7.0, 0.0, 9.0], dtype=torch.float64)


@pytest.mark.parametrize(("own", "agreed"), [(5, 4), (4, 4), (2, 2)])
def test_ranks_have_as_many_lanes_as_the_smallest_gpu_has_room_for(own: int, agreed: int) -> None:
    assert agreed_lanes(own, _Third(2, 4, torch.device("cpu"))) == agreed
