"""Forgetting: how much of what a model once knew of a class is gone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def forgetting(best: Sequence[float], accuracy: Sequence[float]) -> tuple[float, ...]:
    """What each class has lost since its best round: f = max_{s <= t} a_s - a_t.

    That is the forgetting of Chaudhry et al. (Riemannian Walk, ECCV 2018, section 3), with classes in place of their
    tasks as Lee et al. do (FedNTD, NeurIPS 2022), and rounds in place of the tasks learned so far. Theirs takes the
    maximum over the rounds before t and may be negative; here t counts too, so a class at its best has forgotten
    nothing: 0.

    Args:
        best: [C] highest accuracy of each class in any evaluated round from 1 to t, from 0 where the initial model was
            trained before, of those in which it had the test samples that it has in t; nan for one without.
        accuracy: [C] in round t.
    """
    return tuple(highest - now for highest, now in zip(best, accuracy, strict=True))


XI = 1e-6
"""What keeps the forgetting degree finite; FedKA's authors do not say."""


def degree(received: float, own: float) -> float:
    """Forgetting degree tau of one class and client: how much of what the received model knew local training has lost.

    (a_g - a_k) / (a_g + xi) of the accuracies of the model that a client received and of its own after local training,
    both on the class's samples of the global test set. 1 has lost all, below 0 has learned; where the received model
    knew nothing it is far below -1. nan for a class without test samples.

    Source: FedKA, Eq. 1; xi is not given there.

    Args:
        received: accuracy a_g.
        own: accuracy a_k.
    """
    return (received - own) / (received + XI)


def mean_degree(degrees: Iterable[float]) -> float | None:
    """Mean of forgetting degrees, each cut off at -1 as the paper's plots are; None if none is known."""
    return average([max(each, -1.0) if not math.isnan(each) else each for each in degrees])


def average(values: Sequence[float]) -> float | None:
    """Mean over the classes that have test samples; None if there are none."""
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else None
