"""Values that pass between methods and the engine."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fl_ddp.protocol import Quadratic, Total, Upload, alike, weight_of

numbers = st.floats(-10, 10, allow_subnormal=False)


@given(numbers, numbers, st.floats(0, 100), st.floats(1e-3, 10))
def test_a_quadratic_prior_is_followed_by_its_gradient_or_solved(
    theta: float, anchor: float, curvature: float, lr: float
) -> None:
    """d/dx of 1/2 (x - theta)^2 + lr curvature / 2 (x - anchor)^2 is 0 at the proximal step."""
    at, rate, g = (torch.tensor(value, dtype=torch.float64) for value in (theta, lr, 0.25))
    parts = (torch.tensor(curvature, dtype=torch.float64), torch.tensor(anchor, dtype=torch.float64))
    explicit, exact = Quadratic(*parts), Quadratic(*parts, exact=True)
    leaf = at.clone().requires_grad_()
    (own,) = torch.autograd.grad(curvature / 2 * (leaf - anchor) ** 2, leaf)
    torch.testing.assert_close(explicit.added_to(g, at), g + own)
    assert explicit.solved_from(at, rate) is at and exact.added_to(g, at) is g
    x = exact.solved_from(at, rate)
    # roundings of numbers up to 10 * (1 + 1000)
    assert abs(x - theta + lr * curvature * (x - anchor)) < 1e-10


def test_a_client_sends_its_parts_of_sums_and_its_rows_unless_it_says_otherwise() -> None:
    one, two = torch.zeros(3, 4), torch.zeros(3, 2)
    assert [*Upload({"a": one}, one, rows={"b": two}).on_the_wire.values()] == [one, two]
    assert len(Upload({"a": one}, one, rows={"a": two}).on_the_wire) == 2, "a row may have a sum's name"
    assert Upload({"a": one}, one, rows={"b": two}, sent={"c": two}).on_the_wire.keys() == {"c"}
    assert Upload({"a": one}, one, rows={"b": two}, sent={}).on_the_wire == {}


def test_a_ratio_of_what_is_not_handed_over_is_none() -> None:
    assert Total({}, numbers={"loss": 3.0, "trained": 2.0, "none": 0.0}).ratio("loss", "trained") == 1.5
    for over, under in (("loss", "weight"), ("delta", "trained"), ("loss", "none")):
        assert Total({}, numbers={"loss": 3.0, "trained": 2.0, "none": 0.0}).ratio(over, under) is None


def test_means_are_by_the_weights_of_what_is_reported_and_of_somebody() -> None:
    numbers = {"pull": 6.0, weight_of("pull"): 4.0, "gap": 0.0, weight_of("gap"): 0.0, "weight": 2.0}
    assert Total({}, numbers=numbers).means(("gap", "pull", "drift")) == {"pull": 1.5}


@pytest.mark.parametrize("length", range(1, 9))
def test_every_row_of_a_gpu_begins_at_a_multiple_of_four_numbers(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.rand(3, length + 1)[:, 1:]
    assert alike(rows) is rows
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    for values, start in ((rows, -1), (rows[1:2], -1), (rows, 0), (rows.sum(), 0)):
        found = alike(values, start)
        assert found.is_contiguous() and found.shape[-1] % 4 == found.storage_offset() % 4 == 0
        assert 0 <= found.shape[-1] - (length if start else values.numel()) < 4
        torch.testing.assert_close(found.sum(-1), values.sum(-1) if start else values.sum())
    leaf = torch.arange(6.0 * length).view(2, 3, length).permute(2, 0, 1)
    assert torch.equal(torch.vmap(lambda one: alike(one, 0).sum())(leaf), leaf.sum((1, 2)))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    assert alike(rows) is rows
