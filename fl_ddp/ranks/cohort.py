"""Which clients take part in a round, on which rank, and how many train side by side."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np
import torch

from fl_ddp.engine.seeds import Purpose, generator
from fl_ddp.protocol import Counts, Indices
from fl_ddp.ranks.collectives import Ranks

_MOST_ON_CPU, _MOST_ON_GPU = 16, 64
# what a group costs beside its lanes, in lanes: Python and guards
_GROUP_ON_CPU = 1
# on a GPU launches, and reading what lanes share: by the number of parameters up to which that holds; that of PflCNN's
# comes of two steps on an H200, of 13 and of 50 lanes in IEEE float32; the others are estimates
_GROUP_ON_GPU = ((300_000, 40), (4_000_000, 20))
_GROUP_OF_LARGE_MODELS = 1


def cohort(seed: int, round_index: int, present: Indices, size: int, samples: Counts | None = None) -> Indices:
    """Ids of a round's cohort, ascending; drawn without replacement, a function of seed, round and who is there.

    Args:
        seed: of the run.
        round_index: from 0.
        present: ids of clients that may take part, ascending.
        size: of the cohort, at most as many.
        samples: [present] of each, from 1 up, where its chance in each draw is in proportion to them; None for equal
            ones.
    """
    if size == len(present):
        return present
    rng = generator(seed, round_index, Purpose.COHORT)
    if samples is None:
        drawn = rng.choice(len(present), size, replace=False, shuffle=False)
    else:
        drawn = _in_proportion(samples, size, rng)
    return present[np.sort(drawn)]


def _in_proportion(samples: Counts, size: int, rng: np.random.Generator) -> Indices:
    """Places of so many, one drawn after another among those that are left; in whole numbers, alike on all machines."""
    left, drawn = samples.copy(), np.zeros(0, np.int64)
    while len(drawn) < size:
        ends = np.cumsum(left)
        places = np.searchsorted(ends, rng.integers(ends[-1], size=size - len(drawn)), side="right")
        drawn = np.concatenate([drawn, np.unique(places)])  # who is drawn again is passed over
        left[drawn] = 0
    return drawn


def owner(client: Indices, num_ranks: int) -> Indices:
    """The rank that keeps each client's memory, fixed for the whole run."""
    return client % num_ranks


def deal(ids: Indices, cost: Counts, num_ranks: int) -> list[Indices]:
    """Deal clients to ranks longest-first, each to the rank with the least work so far.

    Args:
        ids: [cohort] client ids.
        cost: [cohort] local steps of each.
        num_ranks: number of ranks.

    Returns:
        ids of each rank, longest first, so that groups cut from them in order have lanes of like length.
    """
    hands: list[list[int]] = [[] for _ in range(num_ranks)]
    load = np.zeros(num_ranks, np.int64)
    for i in np.argsort(-cost, kind="stable"):
        rank = min(range(num_ranks), key=lambda r: (load[r], len(hands[r]), r))
        hands[rank].append(int(ids[i]))
        load[rank] += cost[i]
    return [np.array(hand, np.int64) for hand in hands]


def cut(ids: Indices, lanes: int) -> list[Indices]:
    """A rank's clients, cut into groups; without clients it has an empty one, so that all ranks know all sums."""
    return [ids[i : i + lanes] for i in range(0, max(len(ids), 1), lanes)]


def auto_lanes(cohort_size: int, device_type: str, num_params: int) -> int:
    """Lanes that pad little on 1, 2 and 4 ranks, or on 1 to 8 GPUs; a function of cohort, model and device type alone.

    The number of lanes is part of a run's numbers, so it must not depend on ranks or load. On GPUs it is the one whose
    time on each number of ranks, next to the least possible there, is least on average.
    """
    on_cpu = device_type == "cpu"
    group = _GROUP_ON_CPU if on_cpu else group_cost(num_params)
    choices = range(1, min(cohort_size, _MOST_ON_CPU if on_cpu else _MOST_ON_GPU) + 1)

    def cost(ranks: int, lanes: int) -> int:
        return ceil(ceil(cohort_size / ranks) / lanes) * (lanes + group)

    def total(lanes: int) -> float:
        if on_cpu:
            return sum(cost(ranks, lanes) for ranks in (1, 2, 4))
        possible = (ranks for ranks in (1, 2, 4, 8) if ranks <= cohort_size)
        return sum(cost(ranks, lanes) / min(cost(ranks, each) for each in choices) for ranks in possible)

    return min(choices, key=lambda lanes: (total(lanes), -lanes))


def agreed_lanes(lanes: int, ranks: Ranks) -> int:
    """The fewest lanes that any rank has room for: their GPUs may be unlike, and all bits depend on the number."""
    given = torch.zeros(ranks.size, dtype=torch.float64)
    given[ranks.index] = lanes
    return int(ranks.add(given).min())


def group_cost(num_params: int) -> int:
    """What a group of clients costs on a GPU beside its lanes, in lanes: the smaller the model, the more."""
    return next((cost for most, cost in _GROUP_ON_GPU if num_params <= most), _GROUP_OF_LARGE_MODELS)


def padded_lanes(hands: Sequence[Indices], lanes: int) -> float:
    """Share of a round's lanes without a client, where each rank puts its hand into groups of so many lanes."""
    num_groups = sum(-(-max(len(hand), 1) // lanes) for hand in hands)
    return 1 - sum(map(len, hands)) / (num_groups * lanes)
