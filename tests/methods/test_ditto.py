"""Ditto's own models on the quadratic federation Q; the global model is FedAvg's whatever lam."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from quadratic import (
    TAU,
    THETA_0,
    A,
    B,
    OneWeight,
    P,
    Rounds,
    approx,
    descend,
    epoch_of_single_samples,
    local_models,
    quadratic,
)

from fl_ddp.methods.ditto import Ditto
from fl_ddp.methods.fedavg import FedAvg


def own_models(v: list[float], received: float, lam: float) -> list[float]:
    """a (x - b) + lam (x - theta) = (a + lam) (x - (a b + lam theta) / (a + lam))."""
    of_clients = zip(v, A, B, TAU, strict=True)
    return [descend(a + lam, (a * b + lam * received) / (a + lam), own, tau) for own, a, b, tau in of_clients]


@pytest.mark.parametrize("lam", [0.0, 0.7])
def test_own_models_are_held_near_the_received_one(lam: float) -> None:
    """They begin where they were, and lam pulls to the model received in the round, not to the next."""
    rounds = Rounds(Ditto(OneWeight(), lam=lam), quadratic(), epoch_of_single_samples())
    v, theta = [THETA_0] * 3, THETA_0
    for _ in range(3):
        rounds.play()
        v, theta = own_models(v, theta, lam), float(P @ local_models(theta))
        assert rounds.local_scalars() == approx(v)
        assert rounds.remembered("v")[:, 0].tolist() == approx(v)
        assert rounds.server["theta"].item() == approx(theta)


def test_the_global_model_is_fedavg_s_bit_for_bit() -> None:
    ours, theirs = (
        Rounds(method, quadratic(), epoch_of_single_samples()) for method in (Ditto(OneWeight()), FedAvg(OneWeight()))
    )
    for cohort in ([0, 2], [1], [0, 1, 2]):
        assert torch.equal(ours.play(cohort)["theta"], theirs.play(cohort)["theta"])


def test_a_client_that_stays_away_keeps_its_own_model() -> None:
    rounds = Rounds(Ditto(OneWeight()), quadratic(), epoch_of_single_samples())
    rounds.play([0])
    first = rounds.remembered("v").clone()
    rounds.play([1])
    assert rounds.remembered("v")[0] == first[0]
    assert np.isclose(first[1:].numpy(), THETA_0).all()
