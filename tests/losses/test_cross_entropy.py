"""The clients' loss."""

from __future__ import annotations

import torch

from fl_ddp.losses.criterion import mean_over
from fl_ddp.losses.cross_entropy import among, cross_entropy


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


def test_smoothed_labels_are_torchs_own_and_only_classes_that_are_allowed_have_a_share() -> None:
    logits = torch.randn(7, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.tensor([0, 1, 3, 0, 3, 1, 1])
    theirs = torch.nn.functional.cross_entropy(logits, y, reduction="none", label_smoothing=0.3)
    torch.testing.assert_close(cross_entropy(logits, y, 0.3), theirs, rtol=1e-13, atol=0)
    allowed = torch.tensor([True, True, False, True, False])
    few = torch.tensor([0, 1, 2, 0, 2, 1, 1])
    theirs = torch.nn.functional.cross_entropy(logits[:, allowed], few, reduction="none", label_smoothing=0.3)
    torch.testing.assert_close(cross_entropy(among(logits, allowed), y, 0.3), theirs, rtol=1e-13, atol=0)
