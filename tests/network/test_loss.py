"""The clients' loss."""

from __future__ import annotations

import torch

from fl_ddp.network.loss import cross_entropy, mean_over


def test_cross_entropy_is_torchs_own_and_of_far_logits_finite() -> None:
    logits = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) * 4
    y = torch.arange(7) % 5
    logits[3] *= 1e4
    theirs = torch.nn.functional.cross_entropy(logits, y, reduction="none")
    torch.testing.assert_close(cross_entropy(logits, y), theirs, rtol=1e-13, atol=0)
    assert cross_entropy(logits, y).isfinite().all()


def test_the_mean_is_over_real_samples() -> None:
    losses = torch.tensor([1.0, 2.0, 100.0])
    assert mean_over(torch.tensor([1.0, 1.0, 0.0]), losses) == 1.5
    assert mean_over(torch.zeros(3), losses) == 0
