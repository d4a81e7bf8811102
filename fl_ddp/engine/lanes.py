"""Lanes one after another, in all threads that are idle, where that is faster than side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, vmap
from torch.utils._pytree import tree_map

from fl_ddp.protocol import Batch

Lanes = int | Batch | None
"""Where what is given has its lanes, as vmap's in_dims: 0, or LANES of a batch; None where all are given the same."""
Item = TypeVar("Item")
Nest = TypeVar("Nest")


class ForEach(Protocol):
    """Does something with all items, in whatever threads, and returns when it is done."""

    def __call__(self, work: Callable[[Item], None], items: Iterable[Item], /) -> None:
        """Do it."""


def one_by_one(work: Callable[[Item], None], items: Iterable[Item], /) -> None:
    """Do something with all items in this thread."""
    for item in items:
        work(item)


def by_lane(
    function: Callable[[Tensor, Any], Nest],
    theta: Tensor,
    given: Tensor | Batch,
    spread: ForEach | None,
    dims: Lanes = 0,
) -> Nest:
    """What a function gives for each lane's model and what the lane is given: tensors [G, ...], without gradients.

    Args:
        function: of one lane's theta [V] and of what it is given; gives a tensor, or several by name.
        theta: [G, V].
        given: what the lanes are given.
        spread: does something with all lanes, one after another in each of its threads; None for all side by side.
        dims: where that has its lanes.
    """
    if spread is None:
        with torch.no_grad():
            return vmap(function, (0, dims))(theta, given)
    found: list[Nest] = [None] * len(theta)  # type: ignore[list-item]

    @torch.no_grad()
    def one(lane: int) -> None:
        found[lane] = function(theta[lane].clone(), _of_lane(given, dims, lane))

    spread(one, range(len(theta)))
    stacked: Nest = tree_map(lambda *each: torch.stack(each), *found)
    return stacked


def _of_lane(given: Tensor | Batch, dims: Lanes, lane: int) -> Tensor | Batch:
    """What one lane is given; it may write into what all are, as their own."""
    if dims is None:
        return given.clone() if isinstance(given, Tensor) else given
    if isinstance(given, Tensor):
        return given[lane]
    return Batch(given.x[lane], given.y[lane], given.mask[lane], given.key[lane], given.allowed)
