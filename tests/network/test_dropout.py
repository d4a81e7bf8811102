"""Dropout by keys, beside what a method draws of the same key, and at its ends."""

from __future__ import annotations

import torch
from pytest import approx
from torch import Tensor

from fl_ddp.api import normal, uniform
from fl_ddp.network.dropout import KeyedDropout

KEY, SHAPE = torch.tensor(12345), (20_000,)


def kept(layer: int) -> Tensor:
    """Which of many ones a layer keeps of a step's key, as 1 and 0."""
    dropout = KeyedDropout(0.5, layer)
    dropout.key = KEY
    found: Tensor = dropout(torch.ones(SHAPE))
    return (found > 0).float()


def test_a_methods_noise_has_nothing_to_do_with_what_layers_drop() -> None:
    """Five deviations of a correlation of 20,000 pairs that have none."""
    noises = [draw(KEY, stream, SHAPE) for draw in (uniform, normal) for stream in range(3)]
    columns = torch.stack([*map(kept, range(8)), *noises, *(noise.abs() for noise in noises[3:])])
    found = torch.corrcoef(columns) - torch.eye(len(columns))
    assert found[:8, 8:].abs().max() < 5 / SHAPE[0] ** 0.5  # what is kept
    assert found[:11, 11:].abs().max() < 5 / SHAPE[0] ** 0.5  # and uniform noise, beside normal noise and its size
    assert found[8:11, 8:11].abs().max() < 5 / SHAPE[0] ** 0.5
    assert found[11:14, 11:14].abs().max() < 5 / SHAPE[0] ** 0.5


def test_what_is_dropped_for_certain_has_a_gradient_of_zero() -> None:
    x = torch.ones(4, requires_grad=True)
    ours, theirs = KeyedDropout(1.0, 0)(x), torch.nn.Dropout(1.0)(x)
    assert torch.equal(ours, theirs) and torch.equal(ours, torch.zeros(4))
    (ours + x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == approx([1, 1, 1, 1])
