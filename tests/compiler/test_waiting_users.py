"""A write in place that waits for a reading of what it overwrites, which torch's compiler takes for a user."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from fl_ddp.compiler.compilation import compiled


def clipped_adam(theta: Tensor, first: Tensor, second: Tensor, pulled: Tensor, limit: Tensor, active: Tensor) -> None:
    d = pulled + 0.01 * theta
    d = d * (limit / d.square().sum(1).sqrt()).clamp(max=1)[:, None]
    m, v = 0.9 * first + 0.1 * d, 0.99 * second + 0.01 * d * d
    theta.copy_(torch.where(active[:, None], theta - m / (v.sqrt() + 1e-8), theta))
    first.copy_(m)
    second.copy_(v)


def momentum(theta: Tensor, first: Tensor, second: Tensor, pulled: Tensor, limit: Tensor, active: Tensor) -> Tensor:
    d = (pulled + 0.01 * theta) * (1 / limit)[:, None]
    theta.copy_(torch.where(active[:, None], theta - d, theta))
    first.copy_(0.9 * first + d)
    return d.sum(1)


@pytest.mark.parametrize("step", [clipped_adam, momentum])
@pytest.mark.parametrize("size", [5, 36])
def test_what_reads_a_parameter_before_it_is_written_compiles(step: Callable[..., Tensor | None], size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    eager = [torch.rand(2, size, generator=generator) for _ in range(4)]
    others = torch.tensor([0.3, 0.7]), torch.tensor([True, False])
    own = [t.clone() for t in eager]
    expected, found = step(*eager, *others), compiled(step, "the step")(*own, *others)
    torch.testing.assert_close((own, found), (eager, expected), rtol=1e-6, atol=1e-6)
    assert torch.equal(own[0][1], eager[0][1])
