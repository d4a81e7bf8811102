"""SCAFFOLD on the quadratic federation Q: control variates, their mean and the unbiased fixed point."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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
    Floats,
    OneWeight,
    P,
    Rounds,
    approx,
    assert_identical_models_come_back,
    assert_order_of_clients_does_not_matter,
    epoch_of_single_samples,
    linear,
    quadratic,
    small_network,
    steps,
)

from fl_ddp.engine.plan import Plan
from fl_ddp.errors import ConfigError
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.scaffold import Scaffold

COHORTS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=3, unique=True), min_size=1, max_size=5)


class ByHand:
    """Algorithm 1, option II, on Q in closed form: a (y - b) - c_k + c = a (y - goal), goal = b + (c_k - c) / a."""

    def __init__(self, tau: Sequence[int]) -> None:
        self.tau, self.x, self.c, self.c_k = np.array(tau), THETA_0, 0.0, np.zeros(3)

    def play(self, cohort: Sequence[int] = (0, 1, 2)) -> None:
        k = list(cohort)
        goal = B[k] + (self.c_k[k] - self.c) / A[k]
        y: Floats = goal + (1 - LR * A[k]) ** self.tau[k] * (self.x - goal)
        c_plus = self.c_k[k] - self.c + (self.x - y) / (self.tau[k] * LR)
        self.x, self.c = y.mean(), self.c + (c_plus - self.c_k[k]).sum() / 3
        self.c_k[k] = c_plus


def test_two_rounds_of_three_steps() -> None:
    """From zero variates c_k+ = (x - y_k) / (3 lr) with y_k = b_k + (1 - lr a_k)^3 (x - b_k)."""
    rounds, by_hand = Rounds(Scaffold(OneWeight()), quadratic(), steps(3)), ByHand([3, 3, 3])
    rounds.play()
    by_hand.play()
    assert [by_hand.x, by_hand.c] == approx([0.872666666666667, 3.757777777777778], abs=1e-14)
    assert by_hand.c_k == approx([1.806666666666667, 1.626666666666667, 7.84], abs=1e-14)
    assert rounds.server["theta"].item() == approx(by_hand.x)
    assert rounds.server["c"].item() == approx(by_hand.c)
    assert rounds.remembered("c")[:, 0].numpy() == approx(by_hand.c_k)
    rounds.play()
    by_hand.play()
    assert [by_hand.x, by_hand.c] == approx([0.242282888888889, 2.101279259259258], abs=1e-14)
    assert rounds.server["theta"].item() == approx(by_hand.x)
    assert rounds.server["c"].item() == approx(by_hand.c)
    assert rounds.remembered("c")[:, 0].numpy() == approx(by_hand.c_k)


@settings(max_examples=8, deadline=None)
@given(cohorts=COHORTS)
def test_partial_participation_with_uneven_steps_follows_algorithm_1(cohorts: list[list[int]]) -> None:
    """x moves by the cohort's uniform mean, c by the cohort's sum over all N, c_k of absent clients stay."""
    rounds, by_hand = Rounds(Scaffold(OneWeight()), quadratic(), epoch_of_single_samples()), ByHand(TAU.tolist())
    for cohort in cohorts:
        rounds.play(cohort)
        by_hand.play(cohort)
        assert rounds.server["theta"].item() == approx(by_hand.x)
        assert rounds.server["c"].item() == approx(by_hand.c)
        assert rounds.remembered("c")[:, 0].numpy() == approx(by_hand.c_k)


@settings(max_examples=8, deadline=None)
@given(cohorts=COHORTS, momentum=st.sampled_from([0.0, 0.9]))
def test_server_variate_is_the_mean_over_all_clients(cohorts: list[list[int]], momentum: float) -> None:
    rounds = Rounds(Scaffold(OneWeight()), quadratic(), epoch_of_single_samples(momentum))
    for cohort in cohorts:
        rounds.play(cohort)
        assert rounds.server["c"].item() == approx(rounds.remembered("c").mean().item())


def test_fixed_point_is_the_optimum_of_the_mean_loss() -> None:
    """At rest c_k = a_k (theta - b_k) and c = 0; the distance shrinks by about 0.4 a round."""
    rounds = Rounds(Scaffold(OneWeight()), quadratic(), steps(3))
    theta = rounds.scalars(40)
    assert approx(-2 / 7) == OPTIMUM
    assert theta[-1] == approx(OPTIMUM)
    assert rounds.server["c"].item() == approx(0.0)
    assert rounds.remembered("c")[:, 0].numpy() == approx(A * (OPTIMUM - B))


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_variates_of_constant_gradients_are_the_gradients(rho: float) -> None:
    """x - y = lr ||a_k||_1 (s_k - c_k + c), so c_k+ = s_k in every round; dividing by lr tau_k would give more."""
    slope = np.array([1.0, -2.0, 0.5])
    rounds = Rounds(Scaffold(OneWeight()), linear(slope.tolist()), epoch_of_single_samples(momentum=rho))
    for _ in range(3):
        rounds.play()
        assert rounds.remembered("c")[:, 0].numpy() == approx(slope)
        assert rounds.server["c"].item() == approx(slope.mean())


@pytest.mark.parametrize("rho", [0.0, 0.9])
def test_identical_clients_give_fedavg(rho: float) -> None:
    """With full participation and the same batches c_k = c at all times, so that the correction is 0."""
    clients = quadratic([2.0] * 3, [1.0] * 3, [0.5] * 3, [4] * 3)
    plan = epoch_of_single_samples(momentum=rho)
    scaffold, fedavg = Rounds(Scaffold(OneWeight()), clients, plan), Rounds(FedAvg(OneWeight()), clients, plan)
    assert scaffold.scalars(4) == approx(fedavg.scalars(4))
    assert scaffold.server["c"].item() != 0


def test_first_round_is_fedavg_with_uniform_weights() -> None:
    scaffold = Rounds(Scaffold(OneWeight()), quadratic(), epoch_of_single_samples())
    fedavg = Rounds(FedAvg(OneWeight(), weights="uniform"), quadratic(), epoch_of_single_samples())
    assert scaffold.scalars(1).tolist() == fedavg.scalars(1).tolist()


def test_data_weights_and_server_lr() -> None:
    """x <- x + server_lr sum p_k (y_k - x), c as with uniform weights."""
    method = Scaffold(OneWeight(), weights="data", server_lr=0.3)
    rounds, uniform = Rounds(method, quadratic(), steps(3)), Rounds(Scaffold(OneWeight()), quadratic(), steps(3))
    rounds.play()
    uniform.play()
    assert rounds.server["theta"].item() == approx(THETA_0 + 0.3 * (P @ rounds.local_scalars() - THETA_0))
    assert torch.equal(rounds.server["c"], uniform.server["c"])


def test_client_without_steps_keeps_its_variate() -> None:
    """Batches of 3 without the last short one: client 2, with 2 samples, takes no step in the second round."""
    rounds = Rounds(Scaffold(OneWeight()), quadratic(), steps(3))
    rounds.play()
    before = rounds.remembered("c")
    rounds.plan = Plan(batch_size=3, epochs=1, steps=None, lr=LR, drop_last=True)
    rounds.play()
    after = rounds.remembered("c")
    assert before[2].item() != 0
    assert torch.equal(after[2], before[2])
    assert bool((after[:2] != before[:2]).all())
    assert rounds.server["c"].item() == approx(after.mean().item())


def test_shortened_gradients_are_refused() -> None:
    """A control variate is the mean of whole ones."""
    with pytest.raises(ConfigError, match=r"^--clip_norm: 0\.05, but Scaffold .*; accepted: null, or another method"):
        Scaffold(OneWeight()).refuse(replace(steps(3), clip_norm=0.05), told_task=False)
    Scaffold(OneWeight()).refuse(steps(3), told_task=True)


def test_identical_models_come_back_bit_equal() -> None:
    assert_identical_models_come_back(Scaffold(small_network(hidden=40)), [5, 3, 2])


def test_order_of_clients_does_not_matter() -> None:
    assert_order_of_clients_does_not_matter(Scaffold(small_network()))
