"""Rows of clients, one for each of a cohort: a gather that is a sum of parts which are 0 elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from math import prod

import torch
from torch import Tensor

from fl_ddp.engine.transfer import Readings, upload
from fl_ddp.errors import DivergedError, RunError
from fl_ddp.protocol import Indices, Tensors

_WHOLE = {torch.float64: 2**53, torch.float32: 2**24}
"""The largest whole number up to which a buffer holds all."""


class CohortRows:
    """The rows of one round that this rank's clients hand over.

    The sum over ranks adds zeros to every number, so rows have the same bits on any number of ranks; a negative zero
    becomes a positive one on each.
    """

    def __init__(self, cohort: Indices, dtype: torch.dtype, readings: Readings | None = None) -> None:
        """Begin with nothing.

        Args:
            cohort: [cohort] ids, in the order of the rows.
            dtype: of the buffer; float64 holds float32 exactly; whole numbers that it does not hold are refused.
            readings: by which it is heard whether rows are finite; at once if None.
        """
        self._readings = readings or Readings()
        self._place = {int(client): place for place, client in enumerate(cohort)}
        self._dtype = dtype
        self._of: dict[str, Tensor] = {}
        self._type_of: dict[str, torch.dtype] = {}

    def add(self, rows: Mapping[str, Tensor], clients: Indices, names: Sequence[str]) -> None:
        """Add the rows [G, ...] of a group.

        Args:
            rows: by name.
            clients: [G] ids, -1 for a padded lane.
            names: [G] what to call the client of each lane in an error message.

        Raises:
            DivergedError: a client's row is not finite.
            RunError: it has a whole number that the buffer does not hold.
        """
        lanes = [lane for lane, client in enumerate(clients) if client >= 0]
        if not rows:
            return
        device = next(iter(rows.values())).device
        places = [self._place[int(clients[lane])] for lane in lanes]
        here, there = upload(torch.tensor([lanes, places], dtype=torch.int64), device)
        told = [names[lane] for lane in lanes]
        for name, t in rows.items():
            if name not in self._of:
                self._of[name] = t.new_zeros(len(self._place), *t.shape[1:], dtype=self._dtype)
                self._type_of[name] = t.dtype
            own = t[here]
            mine = own.to(self._dtype) + 0.0
            finite = mine.isfinite().view(len(lanes), prod(mine.shape[1:])).all(1)
            self._of[name][there] = mine
            self._readings.ask(finite, partial(_judge, repr(name), told))
            most = _WHOLE[self._dtype]
            if not t.is_floating_point() and t.dtype != torch.bool and torch.iinfo(t.dtype).max > most:
                whole = own.to(torch.int64)
                held = ((whole <= most) & (whole >= -most)).view(len(lanes), prod(mine.shape[1:])).all(1)
                self._readings.ask(held, partial(_judge_whole, repr(name), most, told))

    def parts(self) -> list[Tensor]:
        """All rows as flat vectors, to be added over the ranks."""
        return [t.flatten() for t in self._of.values()]

    def totals(self, parts: Sequence[Tensor]) -> Tensors:
        """The rows [cohort, ...] in their own types, from the ranks' sums of vectors like parts()."""
        return {
            name: total.view(t.shape).to(self._type_of[name])
            for (name, t), total in zip(self._of.items(), parts, strict=True)
        }


def hear_finite(memory: Mapping[str, Tensor], real: Tensor, names: Sequence[str], readings: Readings) -> None:
    """Have it heard that all is finite which clients remember.

    Args:
        memory: [G, ...] by name, floating-point numbers.
        real: [G] 0 for a padded lane, of which nothing is kept.
        names: [G] what to call the client of each lane in an error message.
        readings: by which it is heard; they raise DivergedError.
    """
    for name, t in memory.items():
        if t.numel():
            ends = torch.stack(t.reshape(len(names), -1).aminmax(dim=1))
            readings.ask(
                ends.isfinite().all(0) | (real == 0),
                partial(_judge, f"{name!r} in its memory, finite at first,", names),
            )


def _judge_whole(what: str, most: int, clients: Sequence[str], held: list[float]) -> None:
    """Hear which clients' whole numbers can be handed over."""
    if not all(held):
        reason = f"{what} has a whole number beyond {most:,}, up to which rows hold all; hand it over in parts"
        raise RunError(f"{clients[held.index(False)]}: {reason}")


def _judge(what: str, clients: Sequence[str], finite: list[float]) -> None:
    """Hear which clients' numbers are finite."""
    if not all(finite):
        raise DivergedError(f"{clients[finite.index(False)]}: {what} is not finite")
