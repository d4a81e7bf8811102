"""The samples of some steps at a time, copied out of the training set row by row."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from fl_ddp.engine.graphed import Steps
from fl_ddp.engine.samples import Samples
from fl_ddp.engine.step import Drawn

AT_ONCE = 2**23
"""Bytes of images in a stack."""


class Stack(NamedTuple):
    """The next steps: their samples [S, G, B, ...], learning rates [S, G] where they change, how many there are.

    S is the same for all stacks of a training; what lies behind the last step is padding.
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
    shape = (*taken.rows.shape[1:], *samples.x.shape[1:])
    scales = _scales_on(samples.x.device) and samples.x.dtype == torch.uint8
    at_once = max(1, AT_ONCE // (prod(shape) * (dtype.itemsize if scales else samples.x.element_size()) or 1))
    count = len(taken.rows)
    at_once = at_once if alike else min(at_once, max(count, 1))
    more = -count % at_once
    rows, key, lr = (part if part is None or not more else _longer(part, more) for part in taken)
    assert rows is not None and key is not None
    if more:
        rows[count:] = -1
    mask, index = (rows >= 0).to(dtype), rows.clamp_min(0)
    targets = samples.y[index]
    if not targets.is_floating_point():
        targets = targets.clamp_min(0)  # padding bears the first sample's label, which may not be of the task
    number = torch.arange(len(rows), device=rows.device)
    for first in range(0, count, at_once):
        part, few = slice(first, first + at_once), min(at_once, count - first)
        stored = samples.x.new_empty(at_once, *shape)
        places, into = index[first : first + few].flatten(), stored[:few].view(-1, *samples.x.shape[1:])
        torch.index_select(samples.x, 0, places, out=into)
        x = torch.empty_like(stored, dtype=dtype) if scales else stored
        if scales:
            x[:few].copy_(stored[:few]).div_(255)
        drawn = Drawn(x, targets[part], mask[part], key[part], number[part])
        yield Stack(drawn, None if lr is None else lr[part], few)


def _scales_on(device: torch.device) -> bool:
    """Whether pixels become numbers before a step, not in it."""
    return device.type == "cpu"


def _longer(t: Tensor, more: int) -> Tensor:
    """A tensor with so many rows more."""
    return torch.cat([t, t.new_zeros(more, *t.shape[1:])])
