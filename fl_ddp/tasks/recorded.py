"""What a run's checkpoints know of its data and tasks, so that no other ones take their place unseen."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from fl_ddp.errors import ConfigError
from fl_ddp.tasks.world import Worlds

_AT_ONCE = 10_000
"""Samples that are copied from the device in one piece."""


def recorded(worlds: Worlds, init: Tensor | None = None) -> dict[str, str]:
    """The sha256 of all samples as the run numbers them, of what tasks and reductions make of them, and of weights."""
    digest = hashlib.sha256()
    for name, tensor in sorted(worlds.samples.items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        for piece in torch.split(tensor, _AT_ONCE):
            digest.update(piece.cpu().contiguous().numpy().data)
    given = {} if init is None else {"init_sha256": hashlib.sha256(init.cpu().numpy().data).hexdigest()}
    if worlds.reductions:
        given["reductions_sha256"] = hashlib.sha256(worlds.reductions.encode()).hexdigest()
    return {"data_sha256": digest.hexdigest(), "tasks_sha256": worlds.sha256, **given}


def refuse_others(folder: Path, known: Mapping[str, object], now: Mapping[str, str]) -> None:
    """Refuse other samples or tasks than a checkpoint knows; older ones do not know all.

    Args:
        folder: of the run.
        known: the checkpoint's state.
        now: what recorded() has, or a part of it.

    Raises:
        ConfigError: there are others.
    """
    if any(known.get(name, digest) != digest for name, digest in now.items()):
        what = "the run was made with other samples, inputs or labels in its tasks, or began with other weights"
        raise ConfigError(folder, f"{what}; restore its files")
