"""The path score of RWalk: Chaudhry et al., Riemannian Walk for Incremental Learning, ECCV 2018 (arXiv 1801.10112)."""

from __future__ import annotations

import torch
from torch import Tensor

from fl_ddp.protocol import Tensors


def rwalk_window(
    trace: Tensors, old: Tensor, new: Tensor, g: Tensor, step: Tensor, interval: int, alpha: float, eps: float
) -> Tensors:
    """The trace after a step: where a window ends its path integral joins the score, relative to the output's change.

    Args:
        trace: of any one shape: w (path integral of the window), score, f (running Fisher), start (theta at its start).
        old: theta before the step.
        new: theta after it.
        g: gradient of the loss.
        step: [] number of the step, from 0; the first gradient is the first Fisher.
        interval: steps of a window.
        alpha: weight of the newest squared gradient in the running Fisher.
        eps: damping; the score is about proportional to 1 / eps.

    Source: Section 4.2, score += max(w, 0) / (f (new - start)^2 / 2 + eps), before the Fisher moves on.
    """
    f = torch.where(step == 0, g.square(), trace["f"])
    going = {"w": trace["w"] - g * (new - old), "score": trace["score"], "f": f, "start": trace["start"]}
    score = rwalk_score(going, new, eps)
    ended = {"w": torch.zeros_like(f), "score": score, "f": alpha * g.square() + (1 - alpha) * f, "start": new}
    return {name: torch.where((step + 1) % interval == 0, ended[name], going[name]) for name in going}


def rwalk_score(trace: Tensors, theta: Tensor, eps: float) -> Tensor:
    """The score with the window that ends at theta, whole or cut short."""
    return trace["score"] + trace["w"].clamp_min(0) / (trace["f"] * (theta - trace["start"]).square() / 2 + eps)
