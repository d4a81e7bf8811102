"""Forgetting: how much of what a model once knew of a class is gone."""

from __future__ import annotations

import math
from collections.abc import Sequence


def forgetting(best: Sequence[float], accuracy: Sequence[float]) -> tuple[float, ...]:
    """What each class has lost since its best round: f = max_{s <= t} a_s - a_t.

    That is the forgetting of Chaudhry et al. (Riemannian Walk, ECCV 2018, section 3), with classes in place of their
    tasks as Lee et al. do (FedNTD, NeurIPS 2022), and rounds in place of the tasks learned so far. Theirs takes the
    maximum over the rounds before t and may be negative; here t counts too, so a class at its best has forgotten
    nothing: 0.

    Args:
        best: [C] highest accuracy of each class in any evaluated round from 1 to t; nan for one without test samples.
        accuracy: [C] in round t.
    """
    return tuple(highest - now for highest, now in zip(best, accuracy, strict=True))


def average(values: Sequence[float]) -> float | None:
    """Mean over the classes that have test samples; None if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else None
