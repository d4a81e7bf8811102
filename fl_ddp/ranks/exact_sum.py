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


def _group_bins(
    real: Tensor, value: Tensor, minus: Tensor | None, weight: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Bins [S] of the real lanes' sum of weight * (value - minus) [G, S], and its largest magnitude []."""
    d = _summands(value, minus, weight, real)
    # summands out of range could cancel and leave a sum that looks sound but depends on their order
    high, low = bins(torch.where(d.abs() < LIMIT / len(value), d, torch.nan))
    high = high.sum(0)
    return high, low.sum(0), high.abs().amax()


_GroupBins = Callable[[Tensor, Tensor, Tensor | None, Tensor | None], tuple[Tensor, Tensor, Tensor]]


@made_once
def _compiled(layout: Hashable) -> _GroupBins:
    """Compiled for summands of this layout."""
    return compiled(_group_bins, "the exact sum", half_vectors=True, few_summands=True)


class _Sum(NamedTuple):
    """A sum: its bins [S], or one part [S] of a fast sum, and its shape."""

    parts: tuple[Tensor, ...]
    shape: torch.Size


_Flat = tuple[Tensor, Tensor | None, Tensor | None]
"""A term as value [G, S], minus [S] or [G, S], weight [G, 1] or [G, S]."""


class GroupSum(NamedTuple):
    """A group's share of a sum.

    Attributes:
        sum: of its clients.
        largest: magnitude [] of it, or of a summand that is out of range.
        summands: of which it is.
        real: [G] 1 for clients, 0 for padded lanes.
    """

    sum: _Sum
    largest: Tensor
    summands: _Flat
    real: Tensor


class CohortSum:
    """The running sums of one round on one rank.

    Attributes:
        exact: two float64 bins a number; otherwise one plain float32 sum, whose bits depend on the number of ranks.
        numbers: the totals that are numbers [], on the host, once they are read.
    """

    def __init__(self, exact: bool, compile: bool, num_ranks: int = 1, readings: Readings | None = None) -> None:
        """Begin with nothing; whether sums are in range is asked of the device by readings, or at once."""
        self.exact, self._compile = exact, compile
        self._limit = min(LIMIT, _EXACT_UP_TO / num_ranks)
        self._of: dict[str, _Sum] = {}
        self._bounds: dict[str, float] = {}
        self._readings = readings or Readings()
        self.numbers: dict[str, float] = {}

    def of_group(self, sums: Mapping[str, Tensor | Term], real: Tensor) -> dict[str, GroupSum]:
        """A group's shares, which several threads may make at once; none is added yet.

        Args:
            sums: summands by name, [G, ...].
            real: [G] 1 for clients, 0 for padded lanes.
        """
        shares = {}
        for name, summand in sums.items():
            term = summand if isinstance(summand, Term) else Term(summand)
            flat = _flatten(term)
            if self.exact:
                given = (real, *flat)
                large = self._compile and flat[0].shape[1] >= _COMPILE_FROM
                *parts, largest = (_compiled(layout(given)) if large else _group_bins)(*given)
            else:
                parts = [_summands(*flat, real).float().sum(0)]
                largest = parts[0].abs().amax()
            shares[name] = GroupSum(_Sum(tuple(parts), term.value.shape[1:]), largest, flat, real)
        return shares

    def add(self, shares: Mapping[str, GroupSum], names: Sequence[str]) -> None:
        """Add a group's shares; that they are sound is heard with the readings.

        Args:
            shares: by name.
            names: [G] what to call the client of each lane in an error message.

        Raises:
            RunError: a client's summand, or a sum, is not finite or out of range.
        """
        for name, share in shares.items():
            self._add(name, share.sum)
            held = sum(t.nbytes for t in share.summands if t is not None)
            self._readings.ask(share.largest.view(1), partial(self._judge, name, share, names), held)

    def buffer(self) -> Tensor:
        """All sums as one flat vector, to be added over the ranks."""
        parts = [part for group in self._of.values() for part in group.parts]
        return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64 if self.exact else torch.float32)

    def totals(self, buffer: Tensor) -> dict[str, Tensor]:
        """The sums, float64, from a vector shaped like buffer(), in its memory; that they are in range is heard later.

        Raises:
            RunError: a sum over all ranks is out of range.
        """
        sizes = [len(part) for group in self._of.values() for part in group.parts]
        parts = iter(torch.split(buffer, sizes))
        out = {}
        for name, group in self._of.items():
            total = next(parts).add_(next(parts)) if self.exact else next(parts).double()
            self._readings.ask(torch.stack(total.aminmax()), partial(self._judge_total, name))
            out[name] = total.view(group.shape)
        return out

    def _add(self, name: str, more: _Sum) -> None:
        old = self._of.get(name)
        if old:
            parts = tuple(a.add_(b) for a, b in zip(old.parts, more.parts, strict=True))
            more = _Sum(parts, old.shape)
        self._of[name] = more

    def _judge(self, name: str, share: GroupSum, names: Sequence[str], found: list[float]) -> None:
        """Hear the largest magnitude of a group's sum."""
        if not found[0] < LIMIT:
            raise _blame(name, _summands(*share.summands, share.real), names)
        # an upper bound of all that was reached on the way, so that no partial sum was inexact
        self._bounds[name] = self._bounds.get(name, 0.0) + found[0]
        if not self._bounds[name] < self._limit:
            raise _too_large(name, self._limit)

    def _judge_total(self, name: str, found: list[float]) -> None:
        """Hear the least and the largest number of a total."""
        least, most = found
        if not (least > -LIMIT and most < LIMIT):
            raise _too_large(name, LIMIT)
        if not self._of[name].shape:
            self.numbers[name] = least


def _flatten(term: Term) -> _Flat:
    lanes, shape = term.value.shape[0], term.value.shape[1:]
    minus, weight = term.minus, term.weight
    if minus is not None:
        minus = minus.reshape(lanes, -1) if minus.ndim == term.value.ndim else minus.expand(shape).reshape(-1)
    if weight is not None:
        weight = weight.reshape(lanes, -1)
    return term.value.reshape(lanes, -1), minus, weight


def _summands(value: Tensor, minus: Tensor | None, weight: Tensor | None, real: Tensor) -> Tensor:
    d = value.double() if minus is None else value.double() - minus.double()
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
