"""Banks of labelled examples of past rounds, as many rows as there is room for.

A bank is the tensors x [..., S, width], y and task [..., S], both -1 where there is no row, and priority [..., S].
"""

from __future__ import annotations

import torch
from torch import Tensor

from fl_ddp.protocol import Tensors

NAMES = ("x", "y", "task", "priority")


def empty_bank(rows: int, width: int, like: Tensor) -> Tensors:
    """A bank [rows] without rows, of a tensor's type and on its device."""
    nothing = torch.full((rows,), -1, device=like.device)
    return {
        "x": like.new_zeros(rows, width),
        "y": nothing,
        "task": nothing.clone(),
        "priority": like.new_full((rows,), -1),
    }


def bank_of(x: Tensor, y: Tensor, task: int, noise: Tensor) -> Tensors:
    """A bank of examples with labels y [..., S], -1 where there is none; noise [..., S] in [0, 1) is their priority."""
    real = y >= 0
    return {
        "x": torch.where(real[..., None], x, 0),
        "y": y,
        "task": torch.where(real, task, -1),
        "priority": torch.where(real, noise.to(x), -1),
    }


def joined(bank: Tensors, more: Tensors) -> Tensors:
    """A bank with the rows of two; of other tensors beside them nothing."""
    return {name: torch.cat([bank[name], more[name]], bank["y"].ndim - 1) for name in NAMES}


def merged(bank: Tensors, more: Tensors) -> Tensors:
    """The rows of the highest priority of two banks, as many as the first has room for: a uniform draw from all."""
    both = joined(bank, more)
    best = both["priority"].argsort(dim=-1, descending=True, stable=True)
    return _rows(both, best[..., : bank["y"].shape[-1]])


def shared_out(bank: Tensors, rows: int, num_classes: int) -> Tensors:
    """So many rows of a bank [S], as many of each class of each task as there are, of each those of highest priority.

    A task that has begun finds room, where in a uniform draw from all it had the less, the more came before it.
    """
    best = bank["priority"].argsort(descending=True, stable=True)
    kind = (bank["task"] * num_classes + bank["y"])[best]
    by_kind = kind.argsort(stable=True)
    first = torch.searchsorted(kind[by_kind], kind[by_kind])
    place = torch.empty_like(kind).index_put((by_kind,), torch.arange(len(kind), device=kind.device) - first)
    place = torch.where(bank["y"][best] >= 0, place, len(kind))
    return _rows(bank, best[place.argsort(stable=True)[:rows]])


def without(bank: Tensors, rows: Tensor) -> Tensors:
    """A bank of which some rows [..., S] bool are gone, examples and all."""
    gone = {name: torch.where(rows, -1, bank[name]) for name in ("y", "task", "priority")}
    return gone | {"x": torch.where(rows[..., None], 0, bank["x"])}


def drawn(bank: Tensors, noise: Tensor, rows: int, most: Tensor | None = None) -> Tensors:
    """Some rows of banks [G, S] by noise [G, S] in [0, 1), each as likely as another, none twice.

    Args:
        bank: to draw from.
        noise: decides.
        rows: to draw; where there are too few, y is -1 and x is 0.
        most: [G] of each bank, if less.
    """
    real = bank["y"] >= 0
    order = (noise + ~real).argsort(dim=1, stable=True)[:, :rows]
    some, are = _rows(bank, order), real.gather(1, order)
    if most is not None:
        are = are & (torch.arange(order.shape[1], device=order.device) < most[:, None])
    return without(some, ~are)


def balanced(bank: Tensors, noise: Tensor, num_classes: int) -> Tensors:
    """Rows [M] of a bank [S], drawn by noise [M] in [0, 1): as many of every class of every task.

    Each is drawn from an M-th of all, so that a row whose share is one of M or more is drawn at least once, and none
    much more often than its share; y is -1 where the bank is empty.
    """
    real = bank["y"] >= 0
    kind = torch.where(real, bank["task"] * num_classes + bank["y"], 0)
    count = torch.zeros(int(kind.max()) + 1, device=kind.device, dtype=torch.float64).index_add(0, kind, real.double())
    # CUDA has no running sum of floats that is the same on every call
    weight = torch.where(real, 1 / count[kind].clamp_min(1), 0.0).cpu().cumsum(0).to(kind.device)
    at = (torch.arange(len(noise), device=noise.device) + noise.double()) / len(noise)
    place = torch.searchsorted(weight, at * weight[-1], right=True)
    return _rows(bank, place.clamp_max(len(weight) - 1))


def _rows(bank: Tensors, index: Tensor) -> Tensors:
    """The rows [..., M] of a bank [..., S]."""
    x = bank["x"].gather(-2, index[..., None].expand(*index.shape, bank["x"].shape[-1]))
    return {name: bank[name].gather(-1, index) for name in NAMES if name != "x"} | {"x": x}
