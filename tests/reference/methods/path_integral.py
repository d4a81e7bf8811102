"""What each parameter's way through local training has brought: path integrals of the loss's gradient."""

from __future__ import annotations

from collections.abc import Sequence

from local_training import Step
from parameters import Parameters, summed


def integral(path: Sequence[Step]) -> Parameters:
    """w = sum over steps of -gradient times change: how much a parameter's way has lowered the loss."""
    return summed(-1 * step.gradient * (step.after - step.before) for step in path)


def change(path: Sequence[Step]) -> Parameters:
    """How far the parameters came."""
    return path[-1].after - path[0].before


def si(path: Sequence[Step], theta: Parameters, xi: float) -> Parameters:
    """SI's importance (Zenke et al. 2017): relu(w) / (change^2 + xi); 0 without a step."""
    return integral(path).positive() / (change(path).squared() + xi) if path else theta.filled(0)


def rwalk(path: Sequence[Step], theta: Parameters, interval: int, alpha: float, eps: float) -> Parameters:
    """RWalk's score (Chaudhry et al. 2018): the sum over windows of relu(w) / (fisher change^2 / 2 + eps).

    The running Fisher begins as the square of the first gradient, and after a window's score it takes in the square of
    the window's last gradient.

    Args:
        path: of local training; its last window may be shorter.
        theta: shape of the score where there is no step.
        interval: steps of a window.
        alpha: weight of the newest gradient in the running Fisher.
        eps: damping.
    """
    score = theta.filled(0)
    fisher = path[0].gradient.squared() if path else theta.filled(0)
    for first in range(0, len(path), interval):
        window = path[first : first + interval]
        score = score + integral(window).positive() / (0.5 * fisher * change(window).squared() + eps)
        fisher = alpha * window[-1].gradient.squared() + (1 - alpha) * fisher
    return score
