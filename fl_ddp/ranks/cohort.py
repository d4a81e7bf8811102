"""Which clients take part in a round, on which rank, and how many train side by side."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import numpy as np

from fl_ddp.engine.seeds import Purpose, generator
from fl_ddp.protocol import Counts, Indices

_MOST_LANES = {"cpu": 16, "cuda": 64}
# what a group costs beside its lanes, in lanes: Python, launches and guards
_GROUP_COST = {"cpu": 1, "cuda": 16}


def cohort(seed: int, round_index: int, present: Indices, size: int) -> Indices:
    """Ids of a round's cohort, ascending; uniform without replacement, a function of seed, round and who is there.

    Args:
        seed: of the run.
        round_index: from 0.
        present: ids of clients that may take part, ascending.
        size: of the cohort, at most as many.
    """
    if size == len(present):
        return present
    drawn = generator(seed, round_index, Purpose.COHORT).choice(len(present), size, replace=False, shuffle=False)
    return present[np.sort(drawn)]


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


def auto_lanes(cohort_size: int, device_type: str) -> int:
    """Lanes that pad little on 1, 2 and 4 ranks; a function of cohort size and device type alone.

    The number of lanes is part of a run's numbers, so it must not depend on ranks or load.
    """

    def cost(lanes: int) -> int:
        groups = (ceil(ceil(cohort_size / ranks) / lanes) for ranks in (1, 2, 4))
        return sum(g * (lanes + _GROUP_COST[device_type]) for g in groups)

    return min(range(1, min(cohort_size, _MOST_LANES[device_type]) + 1), key=lambda lanes: (cost(lanes), -lanes))


def padded_lanes(hands: Sequence[Indices], lanes: int) -> float:
    """Share of a round's lanes without a client, where each rank puts its hand into groups of so many lanes."""
    num_groups = sum(-(-max(len(hand), 1) // lanes) for hand in hands)
    return 1 - sum(map(len, hands)) / (num_groups * lanes)
