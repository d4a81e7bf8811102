"""FedDyn on the quadratic federation Q with exact local solves: dual variables, their mean and the fixed point."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from quadratic import (
    LR,
    OPTIMUM,
    TAU,
    THETA_0,
    A,
    B,
    OneWeight,
    P,
    Rounds,
    approx,
    assert_order_of_clients_does_not_matter,
    descend,
    epoch_of_single_samples,
    quadratic,
    small_network,
    steps,
    uneven_clients,
)

from fl_ddp.engine.plan import Plan
from fl_ddp.errors import ConfigError
from fl_ddp.methods.feddyn import FedDyn

ALPHA = 0.5
COHORTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True), min_size=1, max_size=5)


def exact_solve(alpha: float) -> Plan:
    """Steps until the local objectives, of curvatures a_k + alpha, are solved to 1e-14.

    With lr = 2 / (smallest + largest curvature) each step shrinks the distance to every optimum by at least
    (largest - smallest) / (largest + smallest).
    """
    least, most = A.min() + alpha, A.max() + alpha
    count = np.log(1e-14) / np.log((most - least) / (most + least))
    return steps(int(np.ceil(count)), lr=float(2 / (least + most)))


class ByHand:
    """Algorithm 1 with the local optima: a (x - b) - g + alpha (x - theta) = 0."""

    def __init__(self) -> None:
        self.theta, self.h, self.g = THETA_0, 0.0, np.zeros(3)

    def play(self, cohort: Sequence[int] = (0, 1, 2)) -> None:
        k = list(cohort)
        local = (A[k] * B[k] + self.g[k] + ALPHA * self.theta) / (A[k] + ALPHA)
        self.g[k] -= ALPHA * (local - self.theta)
        self.h -= ALPHA / 3 * (local - self.theta).sum()
        self.theta = local.mean() - self.h / ALPHA


def assert_equal_states(rounds: Rounds, by_hand: ByHand) -> None:
    # h / alpha and repeated solves magnify the solver's 1e-14 by less than 100
    assert rounds.server["theta"].item() == approx(by_hand.theta)
    assert rounds.server["h"].item() == approx(by_hand.h)
    assert rounds.remembered("g")[:, 0].numpy() == approx(by_hand.g)


def test_two_rounds_with_exact_local_solves() -> None:
    """Round 1: theta^k = (a_k b_k + alpha theta_0) / (a_k + alpha), g_k = alpha (theta_0 - theta^k), h = mean g_k."""
    rounds, by_hand = Rounds(FedDyn(OneWeight(), alpha=ALPHA), quadratic(), exact_solve(ALPHA)), ByHand()
    rounds.play()
    by_hand.play()
    assert [by_hand.theta, by_hand.h] == approx([-1.2, 0.8])
    assert by_hand.g == approx([2 / 3, 0.4, 4 / 3])
    assert_equal_states(rounds, by_hand)
    rounds.play()
    by_hand.play()
    assert [by_hand.theta, by_hand.h] == approx([-0.374320987654321, 0.193580246913580], abs=1e-14)
    assert_equal_states(rounds, by_hand)


def test_partial_participation_follows_algorithm_1() -> None:
    """The mean is over the cohort, h moves by the cohort's sum over all N, g_k of absent clients stay."""
    rounds, by_hand = Rounds(FedDyn(OneWeight(), alpha=ALPHA), quadratic(), exact_solve(ALPHA)), ByHand()
    for cohort in [[0, 2], [1], [2, 1], [0, 1, 2]]:
        rounds.play(cohort)
        by_hand.play(cohort)
        assert_equal_states(rounds, by_hand)


@settings(max_examples=8, deadline=None)
@given(cohorts=COHORTS)
def test_h_is_the_mean_over_all_clients_however_short_the_training(cohorts: list[list[int]]) -> None:
    rounds = Rounds(FedDyn(OneWeight(), alpha=ALPHA), quadratic(), epoch_of_single_samples())
    for cohort in cohorts:
        rounds.play(cohort)
        assert rounds.server["h"].item() == approx(rounds.remembered("g").mean().item())


def test_rounds_converge_to_the_optimum_of_the_mean_loss() -> None:
    """At rest g_k = a_k (theta - b_k) and h = 0.

    With exact solves and alpha = 2 the error is below 1e-13 after 50 rounds; 8 steps, which leave (1/3)^8 of the
    distance to the local optima, are as good, since clients at rest need none.
    """
    rounds = Rounds(FedDyn(OneWeight(), alpha=2.0), quadratic(), steps(8, exact_solve(2.0).lr), lanes=3)
    theta = rounds.scalars(50)
    assert approx(-2 / 7) == OPTIMUM
    assert theta[-1] == approx(OPTIMUM)
    assert rounds.server["h"].item() == approx(0.0)
    assert rounds.remembered("g")[:, 0].numpy() == approx(A * (OPTIMUM - B))


@pytest.mark.parametrize("alpha", [0.1, 0.5, 3.0])
def test_optimum_with_its_gradients_is_a_fixed_point_for_any_number_of_steps(alpha: float) -> None:
    """There grad L_k - g_k + alpha 0 = 0: no client moves, so nothing does."""
    rounds = Rounds(FedDyn(OneWeight(OPTIMUM), alpha=alpha), quadratic(), epoch_of_single_samples())
    g = torch.from_numpy(A * (OPTIMUM - B))[:, None]
    rounds.memory.put(np.arange(3), {"g": g})
    assert rounds.scalars(3) == approx([OPTIMUM] * 3)
    assert rounds.remembered("g").numpy() == approx(g.numpy())


def test_local_models_descend_the_regularised_objective() -> None:
    """a (x - b) - g + alpha (x - theta) = (a + alpha) (x - B) with B = (a b + g + alpha theta) / (a + alpha)."""
    rounds = Rounds(FedDyn(OneWeight(), alpha=ALPHA), quadratic(), epoch_of_single_samples())
    theta, g = THETA_0, np.zeros(3)
    for _ in range(2):
        goals = (A * B + g + ALPHA * theta) / (A + ALPHA)
        rounds.play()
        ends = [descend(a + ALPHA, goal, theta, tau) for a, goal, tau in zip(A, goals, TAU, strict=True)]
        assert rounds.local_scalars() == approx(ends)
        theta, g = rounds.server["theta"].item(), rounds.remembered("g")[:, 0].numpy().copy()


def test_data_weights_and_server_lr_change_the_mean_alone() -> None:
    """theta_1 = theta_0 + server_lr (sum p_k theta^k - theta_0) - h / alpha with the same g_k and h."""
    method = FedDyn(OneWeight(), weights="data", server_lr=0.3, alpha=ALPHA)
    rounds = Rounds(method, quadratic(), epoch_of_single_samples())
    uniform = Rounds(FedDyn(OneWeight(), alpha=ALPHA), quadratic(), epoch_of_single_samples())
    rounds.play()
    uniform.play()
    h = uniform.server["h"].item()
    assert rounds.server["h"].item() == h
    expected = THETA_0 + 0.3 * (P @ rounds.local_scalars() - THETA_0) - h / ALPHA
    assert rounds.server["theta"].item() == approx(expected)


def test_client_without_steps_keeps_its_gradient_estimate() -> None:
    """theta^k = theta_t leaves g_k - alpha 0; client 2 has fewer samples than a batch."""
    rounds = Rounds(FedDyn(OneWeight(), alpha=ALPHA), quadratic(), epoch_of_single_samples())
    rounds.play()
    before = rounds.remembered("g")
    rounds.plan = Plan(batch_size=3, epochs=1, steps=None, lr=LR, drop_last=True)
    rounds.play()
    after = rounds.remembered("g")
    assert before[2].item() != 0
    assert torch.equal(after[2], before[2])
    assert bool((after[:2] != before[:2]).all())


def test_h_is_the_float64_mean_of_a_float32_networks_estimates() -> None:
    """Division by alpha magnifies the rounding of h: it sums differences of float32 g_k exactly to 2^-62."""
    rounds = Rounds(FedDyn(small_network(), alpha=0.01), uneven_clients(), steps(2))
    assert rounds.server["h"].dtype == torch.float64
    for cohort in ([0, 1, 3], [4, 2, 1], [0, 4]):
        rounds.play(cohort)
    g = rounds.remembered("g")
    assert g.dtype == torch.float32
    assert bool((g != 0).any(1).all())
    torch.testing.assert_close(rounds.server["h"], g.double().mean(0), rtol=0, atol=1e-16)


@pytest.mark.parametrize("alpha", [0.0, -0.1])
def test_alpha_must_be_above_0(alpha: float) -> None:
    with pytest.raises(ConfigError, match=r"--method\.alpha.*above 0"):
        FedDyn(OneWeight(), alpha=alpha)


def test_order_of_clients_does_not_matter() -> None:
    assert_order_of_clients_does_not_matter(FedDyn(small_network()))
