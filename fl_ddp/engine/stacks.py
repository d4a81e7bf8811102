"""The samples of some steps at a time, copied out of the training set row by row."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from fl_ddp.engine.samples import Samples, scaled
from fl_ddp.engine.step import Drawn, Steps

AT_ONCE = 2**23
"""Bytes of inputs and targets in a stack."""
MOST = 64
"""Steps in a stack at most: each looks among all for what its noise is drawn by."""


class Stack(NamedTuple):
    """The next steps: their samples [S, G, B, ...], learning rates [S, G] where they change, how many there are.

    S is the same for all stacks of a training; behind the last step there is anything.
    """

    drawn: Drawn
    lr: Tensor | None
    size: int


def stacks(taken: Steps, samples: Samples, dtype: torch.dtype, *, alike: bool) -> Iterator[Stack]:
    """The samples of all steps.

    Rows are copied, which beats a compiled gather of single bytes, and on a CPU scaled, too: there, a compiled loop
    reads bytes several times slower than torch does.

    Args:
        taken: which samples.
        samples: all of them.
        dtype: of parameters.
        alike: whether stacks are as long for few steps as for many.
    """
    count, one_step = len(taken.rows), taken.rows.shape[1:]
    of_sample, of_target = samples.x.shape[1:], samples.y.shape[1:]
    scales = _scales_on(samples.x.device) and samples.x.dtype == torch.uint8
    bytes_of_x = prod(of_sample) * (dtype.itemsize if scales else samples.x.element_size())
    one = prod(one_step) * (bytes_of_x + prod(of_target) * samples.y.element_size())
    at_once = max(1, min(AT_ONCE // max(one, 1), MOST))
    at_once = at_once if alike else min(at_once, max(count, 1))
    index = taken.rows.clamp_min(0)
    rest = (taken.rows >= 0).to(dtype), taken.key, torch.arange(count, device=index.device)
    for part in (slice(first, min(first + at_once, count)) for first in range(0, count, at_once)):
        few = part.stop - part.start
        stored = samples.x.new_empty(at_once, *one_step, *of_sample)
        torch.index_select(samples.x, 0, index[part].flatten(), out=stored[:few].view(-1, *of_sample))
        x = torch.empty_like(stored, dtype=dtype) if scales else stored
        if scales:
            scaled(stored[:few], dtype, out=x[:few])
        y = samples.targets_at(index[part])
        drawn = Drawn(x, *(_as_long(t, at_once) for t in (y, *(t[part] for t in rest))))
        yield Stack(drawn, None if taken.lr is None else _as_long(taken.lr[part], at_once), few)


def _scales_on(device: torch.device) -> bool:
    """Whether pixels become numbers before a step, not in it."""
    return device.type == "cpu"


def _as_long(t: Tensor, rows: int) -> Tensor:
    """A tensor with so many rows, of which the first are given."""
    if len(t) == rows:
        return t
    longer = t.new_empty(rows, *t.shape[1:])
    longer[: len(t)] = t
    return longer
