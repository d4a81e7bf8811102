"""The mean squared error, and what is told of a test set beside it."""

from __future__ import annotations

import math

import pytest
import torch
from sklearn.metrics import mean_absolute_error, mean_squared_error, r2_score
from torch import Tensor

from fl_ddp.losses.mse import MSE


def pairs(*shape: int) -> tuple[Tensor, Tensor]:
    """Outputs and targets."""
    generator = torch.Generator().manual_seed(0)
    outputs, y = (torch.randn(shape, dtype=torch.float64, generator=generator) for _ in range(2))
    return outputs, y + 3


def test_it_is_torchs_own_and_so_is_its_gradient() -> None:
    outputs, y = pairs(7, 3)
    outputs.requires_grad_()
    theirs = torch.nn.functional.mse_loss(outputs, y, reduction="none").mean(1)
    torch.testing.assert_close(MSE().of_samples(outputs, y), theirs, rtol=1e-13, atol=0)
    (gradient,) = torch.autograd.grad(theirs.sum(), outputs)
    torch.testing.assert_close(MSE().gradient(outputs.detach(), y), gradient, rtol=1e-13, atol=0)
    assert MSE().in_training(outputs, y).equal(MSE().of_samples(outputs, y))


@pytest.mark.parametrize("width", [1, 3])
def test_measures_are_scikit_learns(width: int) -> None:
    outputs, y = pairs(50, width)
    found = MSE().tested(outputs, y)
    assert found.loss == pytest.approx(mean_squared_error(y, outputs), rel=1e-12)
    expected = {"mae": mean_absolute_error(y, outputs), "r2": r2_score(y, outputs)}
    assert found.measures == pytest.approx(expected, rel=1e-12)
    assert tuple(found.measures) == MSE.measures
    assert MSE().own_score(outputs, y) == found.measures[MSE.score]


def test_an_output_whose_targets_are_alike_has_no_r_squared() -> None:
    outputs, y = pairs(50, 2)
    y[:, 0] = 5
    assert MSE().tested(outputs, y).measures["r2"] == pytest.approx(r2_score(y[:, 1], outputs[:, 1]), rel=1e-12)
    assert math.isnan(MSE().tested(outputs[:1], y[:1]).measures["r2"])
