"""Sums of floats that do not depend on order, so that any dealing of clients to ranks gives the same bits.

Every summand is rounded once to float64 and cut into a multiple of 2^-24 and a multiple of 2^-62 (pre-rounding; Demmel
and Nguyen 2013). Sums of either are exact in float64, so free of order, up to 2^29 and 65,536 summands.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from fl_ddp.compiler.compilation import compiled, layout, made_once
from fl_ddp.engine.transfer import Readings
from fl_ddp.errors import DivergedError, RunError
from fl_ddp.protocol import Term

Sums = Mapping[str, Tensor | Term]
"""Summands by name, [G, ...]."""
LIMIT = 2.0**27
"""Largest magnitude a rank's sum may have; one of G summands of a group may have a G-th of it."""
_EXACT_UP_TO = 2.0**29

# adding and subtracting 1.5 * 2^(52 - k) rounds a float64 to a multiple of 2^-k
_HIGH, _LOW = 1.5 * 2.0 ** (52 - 24), 1.5 * 2.0 ** (52 - 62)
_COMPILE_FROM = 4096


def bins(d: Tensor) -> tuple[Tensor, Tensor]:
    """Cut float64 numbers into multiples of 2^-24 and of 2^-62 whose sums are exact."""
    high = (d + _HIGH) - _HIGH
    return high, ((d - high) + _LOW) - _LOW


def exact_total(values: Tensor) -> Tensor:
    """Order-free sums [2] (high, low) of any float tensor; add such pairs elementwise, then add the two."""
    high, low = bins(values.double())
    return torch.stack([high.sum(), low.sum()])


def _lanes_bins(real: Tensor, value: Tensor, minus: Tensor | None, weight: Tensor | None) -> tuple[Tensor, Tensor]:
    """Bins [S] of the real lanes' sum of weight * (value - minus) [G, S]."""
    d = _summands(value, minus, weight, real)
    # summands out of range could cancel and leave a sum that looks sound but depends on their order
    high, low = bins(torch.where(d.abs() < LIMIT / len(value), d, torch.nan))
    return high.sum(0), low.sum(0)


def _lanes_sum(real: Tensor, value: Tensor, minus: Tensor | None, weight: Tensor | None) -> tuple[Tensor]:
    """The same sum [S] in float32, whose bits depend on the order of lanes."""
    return (_summands(value, minus, weight, real).float().sum(0),)


def _judged_bins(
    real: Tensor, value: Tensor, minus: Tensor | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Bins [S], and their largest magnitude []."""
    high, low = _lanes_bins(real, value, minus, weight)
    return high, low, high.abs().amax()


_JudgedBins = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], tuple[Tensor, Tensor, Tensor]]


@made_once
def _compiled(layout: Hashable) -> _JudgedBins:
    """Compiled for summands of this layout."""
    return compiled(_judged_bins, "the exact sum", half_vectors=True, few_summands=True)


class _Block(NamedTuple):
    """One sum, or all sums that are numbers, side by side: one operation is as dear for a number as for many.

    Attributes:
        names: of the sums.
        shape: of one; () where they are numbers.
        parts: bins [S], or one part [S] of a fast sum; S is the number of names where they are numbers.
    """

    names: tuple[str, ...]
    shape: torch.Size
    parts: tuple[Tensor, ...]


_Flat = tuple[Tensor, Tensor | None, Tensor | None]
"""A term as value [G, S], minus [S] or [G, S], weight [G, 1] or [G, S]."""


class GroupSum(NamedTuple):
    """A group's share of a block of sums.

    Attributes:
        block: of its clients.
        largest: magnitude of each of its sums [names], or of a summand that is out of range.
        summands: of which it is.
        real: [G] 1 for clients, 0 for padded lanes.
    """

    block: _Block
    largest: Tensor
    summands: _Flat
    real: Tensor


class CohortSum:
    """The running sums of one round on one rank.

    Attributes:
        exact: two float64 bins a number; otherwise one plain float32 sum, whose bits depend on the number of ranks.
        numbers: the totals that are numbers [], on the host, once they are read.
    """

    def __init__(self, exact: bool, compile: bool, num_ranks: int, readings: Readings | None = None) -> None:
        """Begin with nothing; whether sums are in range is asked of the device by readings, or at once."""
        self.exact, self._compile = exact, compile
        self._limit = min(LIMIT, _EXACT_UP_TO / num_ranks)
        self._of: dict[tuple[str, ...], _Block] = {}
        self._bounds: dict[str, float] = {}
        self._readings = readings or Readings()
        self.numbers: dict[str, float] = {}

    def of_group(self, sums: Sums, real: Tensor) -> list[GroupSum]:
        """A group's shares of what is no number, which several threads may make at once; none is added yet.

        Args:
            sums: summands by name, [G, ...].
            real: [G] 1 for clients, 0 for padded lanes.
        """
        terms = {name: term for name, term in _terms(sums).items() if term.value.ndim > 1}
        return [self._share((name,), term.value.shape[1:], _flatten(term), real) for name, term in terms.items()]

    def _share(self, names: tuple[str, ...], shape: torch.Size, flat: _Flat, real: Tensor) -> GroupSum:
        given = (real, *flat)
        if shape and self.exact and self._compile and flat[0].shape[1] >= _COMPILE_FROM:
            *parts, largest = _compiled(layout(given))(*given)
        else:
            parts = list(_lanes_bins(*given) if self.exact else _lanes_sum(*given))
            largest = parts[0].abs()
            if shape:
                largest = largest.amax() if shape.numel() else largest.new_zeros(1)
        return GroupSum(_Block(names, shape, tuple(parts)), largest.view(-1), flat, real)

    def add(self, shares: Sequence[GroupSum], sums: Sums, real: Tensor, names: Sequence[str]) -> None:
        """Add a group's sums; that they are sound is heard with the readings.

        Args:
            shares: as of_group() gives them.
            sums: summands by name, [G, ...]; numbers are summed here, as threads that do so wait for each other's lock.
            real: [G] 1 for clients, 0 for padded lanes.
            names: [G] what to call the client of each lane in an error message.

        Raises:
            RunError: a client's summand, or a sum, is not finite or out of range.
        """
        numbers = {name: _flatten(term) for name, term in _terms(sums).items() if term.value.ndim == 1}
        # side by side, float32 numbers would be added in another order of lanes
        blocks = [tuple(numbers)] if self.exact and numbers else [(name,) for name in numbers]
        for block in blocks:  # behind the others: of a model that is not finite its change tells more than its loss
            together = _side_by_side([numbers[name] for name in block])
            shares = [*shares, self._share(block, torch.Size(), together, real)]
        for share in shares:
            self._add(share.block)
            held = sum(t.nbytes for t in share.summands if t is not None)
            self._readings.ask(share.largest, partial(self._judge, share, names), held)

    def parts(self) -> list[Tensor]:
        """All sums as flat vectors, to be added over the ranks."""
        return [part for block in self._of.values() for part in block.parts]

    def totals(self, parts: Sequence[Tensor]) -> dict[str, Tensor]:
        """The sums, float64, from vectors like parts(), in their memory; that they are in range is heard later.

        Raises:
            RunError: a sum over all ranks is out of range.
        """
        left, out = iter(parts), dict[str, Tensor]()
        for block in self._of.values():
            total = next(left).add_(next(left)) if self.exact else next(left).double()
            # a copy of numbers, into whose memory the server's step may write
            ends = torch.stack(total.aminmax()) if block.shape and total.numel() else total.clone()
            self._readings.ask(ends, partial(self._judge_totals, block))
            for name, one in zip(block.names, total.view(len(block.names), -1), strict=True):
                out[name] = one.view(block.shape)
        return out

    def _add(self, more: _Block) -> None:
        old = self._of.get(more.names)
        if old:
            parts = tuple(a.add_(b) for a, b in zip(old.parts, more.parts, strict=True))
            more = old._replace(parts=parts)
        self._of[more.names] = more

    def _judge(self, share: GroupSum, clients: Sequence[str], found: list[float]) -> None:
        """Hear the largest magnitude of a group's sums."""
        for place, (name, largest) in enumerate(zip(share.block.names, found, strict=True)):
            if not largest < LIMIT:
                summands = _summands(*share.summands, share.real).view(len(clients), len(found), -1)
                raise _blame(name, summands[:, place], clients)
            # an upper bound of all that was reached on the way, so that no partial sum was inexact
            self._bounds[name] = self._bounds.get(name, 0.0) + largest
            if not self._bounds[name] < self._limit:
                raise _too_large(name, self._limit)

    def _judge_totals(self, block: _Block, found: list[float]) -> None:
        """Hear totals that are numbers, or the least and the largest number of one."""
        for place, number in enumerate(found):
            if not -LIMIT < number < LIMIT:
                raise _too_large(block.names[0 if block.shape else place], LIMIT)
        if not block.shape:
            self.numbers |= zip(block.names, found, strict=True)


def _terms(sums: Sums) -> dict[str, Term]:
    return {name: given if isinstance(given, Term) else Term(given) for name, given in sums.items()}


def _flatten(term: Term) -> _Flat:
    lanes, shape = term.value.shape[0], term.value.shape[1:]
    minus, weight = term.minus, term.weight
    if minus is not None:
        minus = minus.reshape(lanes, -1) if minus.ndim == term.value.ndim else minus.expand(shape).reshape(-1)
    if weight is not None:
        weight = weight.reshape(lanes, -1)
    return term.value.reshape(lanes, -1), minus, weight


def _side_by_side(numbers: Sequence[_Flat]) -> _Flat:
    """Terms [G, 1] as one [G, names]."""
    values = [_difference(value, minus) for value, minus, _ in numbers]
    weights = [
        torch.ones_like(value) if weight is None else weight.double()
        for value, (_, _, weight) in zip(values, numbers, strict=True)
    ]
    return torch.cat(values, 1), None, torch.cat(weights, 1)


def _difference(value: Tensor, minus: Tensor | None) -> Tensor:
    return value.double() if minus is None else value.double() - minus.double()


def _summands(value: Tensor, minus: Tensor | None, weight: Tensor | None, real: Tensor) -> Tensor:
    d = _difference(value, minus)
    d = d if weight is None else d * weight.double()
    return torch.where(real[:, None] > 0, d, 0.0)


def _blame(name: str, summands: Tensor, names: Sequence[str]) -> RunError:
    """What to say of a group whose summands are not finite, or too large alone or together."""
    bad = ~(summands.abs() < LIMIT / len(summands))
    lane = int(bad.any(1).to(torch.int64).argmax())
    if not bad.any():
        return _too_large(name, LIMIT)
    culprit = summands[lane][bad[lane]][0].item()
    what = "not finite" if culprit != culprit or abs(culprit) == float("inf") else f"out of range ({culprit:.3g})"
    return DivergedError(f"{names[lane]}: {name!r} is {what}")


def _too_large(name: str, limit: float) -> RunError:
    return RunError(f"the sum of {name!r} over the cohort is above {limit:.0f}; scale the method's summands down")
