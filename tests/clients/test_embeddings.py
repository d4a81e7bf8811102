"""Divergence and draws of embeddings."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from fl_ddp.clients.embeddings import distributions, divergence, sampled


def stats(mu: list[float], log_sigma: list[float]) -> Tensor:
    return distributions(torch.tensor(mu, dtype=torch.float64), torch.tensor(log_sigma, dtype=torch.float64))


def test_known_divergences() -> None:
    assert float(divergence(stats([1.0], [0.0]))) == 0.5
    assert float(divergence(stats([0.0], [math.log(2)]))) == pytest.approx(0.806852819440055, abs=1e-15)
    assert float(divergence(stats([0.0, 0.0], [0.0, 0.0]))) == 0


def test_the_divergence_is_torchs_summed_over_dimensions() -> None:
    mu, log_sigma = torch.randn(2, 5, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    theirs = kl_divergence(Normal(mu, log_sigma.exp()), Normal(torch.zeros(7), torch.ones(7))).sum(-1)
    torch.testing.assert_close(divergence(distributions(mu, log_sigma)), theirs, rtol=0, atol=1e-12)


def test_points_have_no_divergence_and_its_gradient_is_none() -> None:
    mu = torch.tensor([3.0, 4.0], dtype=torch.float64, requires_grad=True)
    value = divergence(distributions(mu, torch.full((2,), -torch.inf, dtype=torch.float64)))
    value.backward()  # type: ignore[no-untyped-call]
    assert value.item() == 0 and mu.grad is not None and mu.grad.tolist() == [0.0, 0.0]


def test_draws_are_mu_and_sigma_times_normal_noise() -> None:
    many = stats([2.0, -1.0], [math.log(0.5), math.log(3.0)]).expand(20_000, 4)
    z = sampled(many, 2, torch.tensor(7))
    assert z.mean(0).tolist() == pytest.approx([2.0, -1.0], abs=0.08)
    assert z.std(0).tolist() == pytest.approx([0.5, 3.0], rel=0.02)
    assert not torch.equal(z, sampled(many, 2, torch.tensor(8)))
    with_gradient = stats([2.0], [0.0]).requires_grad_()
    (g,) = torch.autograd.grad(sampled(with_gradient, 1, torch.tensor(7)).sum(), with_gradient)
    noise = float(sampled(stats([0.0], [0.0]), 1, torch.tensor(7)))
    assert g.tolist() == [1.0, noise]  # reparameterised


def test_points_stay() -> None:
    z = torch.randn(4, 3)
    assert sampled(z, 3, torch.tensor(1)) is z
    fixed = distributions(z, torch.full_like(z, -torch.inf))
    assert torch.equal(sampled(fixed, 3, torch.tensor(1)), z)
