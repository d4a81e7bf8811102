"""Sums of floats that do not depend on order, so that any dealing of clients to ranks gives the same bits.

Every summand is rounded once to float64 and cut into a multiple of 2^-24 and a multiple of 2^-62 (pre-rounding; Demmel
and Nguyen 2013). Sums of either are exact in float64, so free of order, up to 2^29 and 65,536 summands.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from math import prod

import torch
from torch import Tensor

from fl_ddp.compilation import compiled, layout
from fl_ddp.errors import RunError
from fl_ddp.protocol import Term

LIMIT = 2.0**27
"""Largest magnitude a sum may have; one of G summands of a group may have a G-th of it."""

# adding and subtracting 1.5 * 2^(52 - k) rounds a float64 to a multiple of 2^-k
_HIGH, _LOW = 1.5 * 2.0 ** (52 - 24), 1.5 * 2.0 ** (52 - 62)
_ALIGN = 64
_COMPILE_FROM = 4096


def bins(d: Tensor) -> tuple[Tensor, Tensor]:
    """Cut float64 numbers into multiples of 2^-24 and of 2^-62 whose sums are exact."""
    high = (d + _HIGH) - _HIGH
    return high, ((d - high) + _LOW) - _LOW


def exact_total(values: Tensor) -> Tensor:
    """Order-free sums [2] (high, low) of any float tensor; add such pairs elementwise, then add the two."""
    high, low = bins(values.double())
    return torch.stack([high.sum(), low.sum()])


def _accumulate(
    high: Tensor, low: Tensor, real: Tensor, value: Tensor, minus: Tensor | None, weight: Tensor | None
) -> Tensor:
    """Add the real lanes' weight * (value - minus) [G, S] to high [S] and low [S] in place; whether all is in range."""
    highs, lows = torch.zeros_like(high), torch.zeros_like(low)
    for lane in range(value.shape[0]):
        d = value[lane].double()
        if minus is not None:
            d = d - (minus[lane] if minus.ndim == value.ndim else minus).double()
        if weight is not None:
            d = d * weight[lane].double()
        d = torch.where(real[lane] > 0, d, 0.0)
        # summands out of range could cancel and leave a sum that looks sound but depends on their order
        h, l = bins(torch.where(d.abs() < LIMIT / len(value), d, torch.nan))  # noqa: E741
        highs, lows = highs + h, lows + l
    highs, lows = high + highs, low + lows
    high.copy_(highs)
    low.copy_(lows)
    return (highs.abs() < LIMIT).all()


_Accumulate = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor | None], Tensor]


@cache
def _compiled(layout: Hashable) -> _Accumulate:
    """Compiled for summands of this layout."""
    return compiled(_accumulate)


class CohortSum:
    """The running sums of one round on one rank.

    Attributes:
        exact: two float64 bins a number; otherwise one plain float32 sum, whose bits depend on the number of ranks.
    """

    def __init__(self, exact: bool, compile: bool) -> None:
        self.exact, self._compile = exact, compile
        self._shapes: dict[str, torch.Size] = {}
        self._bins: dict[str, tuple[Tensor, Tensor]] = {}

    def add(self, sums: Mapping[str, Tensor | Term], real: Tensor, names: Sequence[str]) -> None:
        """Add a group's summands.

        Args:
            sums: by name, [G, ...].
            real: [G] 1 for clients, 0 for padded lanes.
            names: [G] what to call the client of each lane in an error message.

        Raises:
            RunError: a client's summand is not finite or out of range.
        """
        for name, summand in sums.items():
            term = summand if isinstance(summand, Term) else Term(summand)
            value, shape = term.value, term.value.shape[1:]
            if name not in self._bins:
                self._shapes[name] = shape
                size = -(-prod(shape) // _ALIGN) * _ALIGN
                dtype = torch.float64 if self.exact else torch.float32
                high = torch.zeros(size, dtype=dtype, device=value.device)
                self._bins[name] = (high, torch.zeros_like(high) if self.exact else high)
            high, low = (b[: prod(shape)] for b in self._bins[name])
            flat = _flatten(term)
            if self.exact:
                large = self._compile and high.numel() >= _COMPILE_FROM
                given = (high, low, real, *flat)
                in_range = (_compiled(layout(given)) if large else _accumulate)(*given)
            else:
                in_range = (high.add_(_summands(*flat, real).float().sum(0)).abs() < LIMIT).all()
            if not bool(in_range):
                raise RunError(_blame(name, _summands(*flat, real), names))

    def buffer(self) -> Tensor:
        """All sums as one flat vector, to be added over the ranks."""
        parts = [b for pair in self._bins.values() for b in (pair if self.exact else pair[:1])]
        return torch.cat(parts)

    def totals(self, buffer: Tensor) -> dict[str, Tensor]:
        """Read the sums, float64, from a vector shaped like buffer().

        Raises:
            RunError: a sum over all ranks is out of range.
        """
        out, start = {}, 0
        for name, (high, _) in self._bins.items():
            shape, size = self._shapes[name], high.numel()
            total = buffer[start : start + size].double()
            start += size
            if self.exact:
                total = total + buffer[start : start + size]
                start += size
            if not bool((total.abs() < LIMIT).all()):
                raise RunError(_too_large(name))
            out[name] = total[: prod(shape)].view(shape)
        return out


def _flatten(term: Term) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """A term as value [G, S], minus [S] or [G, S], weight [G, 1] or [G, S]."""
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


def _blame(name: str, summands: Tensor, names: Sequence[str]) -> str:
    bad = ~(summands.abs() < LIMIT / len(summands))
    lane = int(bad.any(1).to(torch.int64).argmax())
    if not bad.any():
        return _too_large(name)
    culprit = summands[lane][bad[lane]][0].item()
    what = "not finite" if culprit != culprit or abs(culprit) == float("inf") else f"out of range ({culprit:.3g})"
    return f"{names[lane]}: {name!r} is {what}; a smaller --lr usually helps"


def _too_large(name: str) -> str:
    return f"the sum of {name!r} over the cohort is above {LIMIT:.0f}; scale the method's summands down"
