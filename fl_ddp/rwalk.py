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
        interval: steps of a window; one that the last step does not complete is lost.
        alpha: weight of the newest squared gradient in the running Fisher.
        eps: damping; the score is about proportional to 1 / eps.

    Source: Section 4.2, score += max(w, 0) / (f (new - start)^2 / 2 + eps), before the Fisher moves on.
    """
    f = torch.where(step == 0, g.square(), trace["f"])
    w = trace["w"] - g * (new - old)
    score = trace["score"] + w.clamp_min(0) / (f * (new - trace["start"]).square() / 2 + eps)
    ended = {"w": torch.zeros_like(w), "score": score, "f": alpha * g.square() + (1 - alpha) * f, "start": new}
    going = {"w": w, "score": trace["score"], "f": f, "start": trace["start"]}
    return {name: torch.where((step + 1) % interval == 0, ended[name], going[name]) for name in going}
