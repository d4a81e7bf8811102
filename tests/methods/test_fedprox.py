"""FedProx on the quadratic federation Q, and FedAvg where mu is 0."""

from __future__ import annotations

import numpy as np
from quadratic import (
    LR,
    TAU,
    THETA_0,
    A,
    B,
    OneWeight,
    P,
    Rounds,
    approx,
    assert_identical_models_come_back,
    assert_order_of_clients_does_not_matter,
    assert_same_bits,
    descend,
    epoch_of_single_samples,
    linear,
    networks_after,
    quadratic,
    small_network,
)

from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fedprox import FedProx

MU = 0.7
COHORTS = [[0, 1, 2, 3, 4], [1, 2, 4]]


def proximal_models(theta: float) -> list[float]:
    """a_k (x - b_k) + mu (x - theta) = (a_k + mu) (x - B_k) with B_k = (a_k b_k + mu theta) / (a_k + mu)."""
    return [descend(a + MU, (a * b + MU * theta) / (a + MU), theta, tau) for a, b, tau in zip(A, B, TAU, strict=True)]


def test_local_models_descend_the_proximal_objective() -> None:
    rounds = Rounds(FedProx(OneWeight(), mu=MU), quadratic(), epoch_of_single_samples())
    rounds.play()
    assert proximal_models(THETA_0) == approx([1.286945958, 1.54742, 0.164])
    assert rounds.local_scalars() == approx(proximal_models(THETA_0))


def test_the_pull_is_towards_the_model_received_in_each_round() -> None:
    """theta_1 = sum p_k theta^k, and in the second round mu pulls to theta_1."""
    first = float(P @ np.array(proximal_models(THETA_0)))
    assert first == approx(1.140498979)
    second = float(P @ np.array(proximal_models(first)))
    rounds = Rounds(FedProx(OneWeight(), mu=MU), quadratic(), epoch_of_single_samples())
    assert rounds.scalars(2) == approx([first, second])


def test_linear_losses_give_a_geometric_series() -> None:
    """theta_0 - theta^k = lr s_k sum_{r < tau_k} (1 - lr mu)^r."""
    slope = np.array([1.0, -2.0, 0.5])
    progress = np.array([sum((1 - LR * MU) ** r for r in range(tau)) for tau in TAU])
    rounds = Rounds(FedProx(OneWeight(), mu=MU), linear(slope.tolist()), epoch_of_single_samples())
    rounds.play()
    assert rounds.local_scalars() == approx(THETA_0 - LR * slope * progress)


def test_mu_0_is_fedavg_bit_for_bit() -> None:
    fedprox = networks_after(FedProx(small_network(), mu=0.0), COHORTS)
    assert_same_bits(fedprox, networks_after(FedAvg(small_network()), COHORTS))


def test_mu_above_0_is_not_fedavg() -> None:
    fedprox = networks_after(FedProx(small_network(), mu=0.1), COHORTS)["theta"]
    assert not fedprox.equal(networks_after(FedAvg(small_network()), COHORTS)["theta"])


def test_identical_models_come_back_bit_equal() -> None:
    assert_identical_models_come_back(FedProx(small_network(hidden=40), mu=MU), [5, 3, 2])


def test_order_of_clients_does_not_matter() -> None:
    assert_order_of_clients_does_not_matter(FedProx(small_network(), mu=MU))
