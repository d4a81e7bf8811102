"""Functions of each lane's model, side by side or one lane after another."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
import torch
from torch import Tensor

from fl_ddp.engine.lanes import ForEach, Item, by_lane, one_by_one
from fl_ddp.protocol import LANES, Batch, Tensors

COUNT, SAMPLES, WIDTH = 3, 5, 4
GENERATOR = torch.Generator().manual_seed(0)
THETA, X = (torch.randn(COUNT, *shape, generator=GENERATOR).double() for shape in ((WIDTH,), (SAMPLES, WIDTH)))
NUMBERS = torch.arange(COUNT * SAMPLES).view(COUNT, SAMPLES)
ALLOWED = torch.tensor([True, False])
BATCH = Batch(X, NUMBERS, (NUMBERS % 2).double(), torch.arange(COUNT), ALLOWED)


both = pytest.mark.parametrize("spread", [one_by_one, None], ids=["apart", "side by side"])


@both
def test_each_lane_has_its_own_part_of_a_batch_and_all_what_has_no_lanes(spread: ForEach | None) -> None:
    def function(theta: Tensor, batch: Batch) -> Tensors:
        assert theta.shape == (WIDTH,) and batch.x.shape == (SAMPLES, WIDTH) and batch.key.ndim == 0
        assert batch.allowed is ALLOWED
        return {"products": batch.x @ theta, "sum": (batch.mask * batch.y).sum() + batch.key}

    found = by_lane(function, THETA, BATCH, spread, LANES)
    torch.testing.assert_close(found["products"], (X @ THETA[..., None]).squeeze(-1))
    assert found["sum"].tolist() == [
        sum(n for n in range(SAMPLES * lane, SAMPLES * (lane + 1)) if n % 2) + lane for lane in range(COUNT)
    ]


@both
def test_what_all_are_given_has_no_lanes(spread: ForEach | None) -> None:
    found = by_lane(lambda theta, x: x @ theta, THETA, X[0], spread, None)
    torch.testing.assert_close(found, THETA @ X[0].T)


@both
def test_a_lane_may_write_into_what_it_is_given(spread: ForEach | None) -> None:
    """What all are given is each lane's own, and so is a model that all begin from."""
    x = X[0].clone()
    found = by_lane(lambda theta, x: x.sub_(1) @ theta, THETA, x, spread, None)
    torch.testing.assert_close(found, THETA @ (X[0] - 1).T)
    if spread:
        found = by_lane(lambda theta, x: x @ theta.mul_(2), THETA[0].expand(COUNT, -1), X, spread)
        torch.testing.assert_close(found, X @ (2 * THETA[0]))
    written = by_lane(lambda theta, x: x.sub_(1) @ theta.mul_(2), THETA.clone(), X.clone(), spread)
    torch.testing.assert_close(written, ((X - 1) @ (2 * THETA)[..., None]).squeeze(-1))


@both
def test_no_gradient_comes_of_it(spread: ForEach | None) -> None:
    assert not by_lane(lambda theta, x: x @ theta, THETA.clone().requires_grad_(), X, spread).requires_grad


def test_lanes_may_be_looked_at_in_any_order() -> None:
    seen: list[object] = []

    def backwards(work: Callable[[Item], None], items: Iterable[Item], /) -> None:
        for item in reversed([*items]):
            seen.append(item)
            work(item)

    found = by_lane(lambda theta, x: x @ theta, THETA, X, backwards)
    torch.testing.assert_close(found, (X @ THETA[..., None]).squeeze(-1))
    assert seen == [2, 1, 0]


@both
def test_a_function_s_error_is_heard(spread: ForEach | None) -> None:
    def fails(theta: Tensor, x: Tensor) -> Tensor:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        by_lane(fails, THETA, X, spread)
