"""FedAvg on the quadratic federation Q and on linear losses, and the invariants of its average."""

from __future__ import annotations

from typing import Literal

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
    TWO_EPOCHS,
    A,
    B,
    OneWeight,
    P,
    Rounds,
    approx,
    assert_identical_models_come_back,
    assert_order_of_clients_does_not_matter,
    epoch_of_single_samples,
    linear,
    local_models,
    quadratic,
    small_network,
    steps,
    uneven_clients,
)

from fl_ddp.engine.plan import Plan
from fl_ddp.methods.fedavg import FedAvg

Weights = Literal["data", "uniform"]
WEIGHTS: tuple[Weights, ...] = ("data", "uniform")


def test_local_models_are_the_ends_of_gradient_descent() -> None:
    """theta^k = b_k + (1 - lr a_k)^tau_k (theta_0 - b_k)."""
    rounds = Rounds(FedAvg(OneWeight()), quadratic(), epoch_of_single_samples())
    rounds.play()
    assert local_models(THETA_0) == approx([1.18098, 1.512, 0.08])
    assert rounds.local_scalars() == approx(local_models(THETA_0))


def test_two_rounds_are_the_means_weighted_by_data() -> None:
    """theta_1 = sum p_k theta^k from theta_0, theta_2 the same from theta_1."""
    first = float(P @ local_models(THETA_0))
    second = float(P @ local_models(first))
    assert [first, second] == approx([1.06009, 0.57054257605])
    rounds = Rounds(FedAvg(OneWeight()), quadratic(), epoch_of_single_samples())
    assert rounds.scalars(2) == approx([first, second])


def test_uniform_weights_ignore_the_numbers_of_samples() -> None:
    rounds = Rounds(FedAvg(OneWeight(), weights="uniform"), quadratic(), epoch_of_single_samples())
    assert rounds.scalars(1) == approx([local_models(THETA_0).mean()])


def test_server_lr_scales_the_mean_change() -> None:
    """theta_1 = theta_0 + server_lr (sum p_k theta^k - theta_0)."""
    rounds = Rounds(FedAvg(OneWeight(), server_lr=0.3), quadratic(), epoch_of_single_samples())
    assert rounds.scalars(1) == approx([THETA_0 + 0.3 * (P @ local_models(THETA_0) - THETA_0)])


def test_partial_participation_renormalises_the_weights_over_the_cohort() -> None:
    rounds = Rounds(FedAvg(OneWeight()), quadratic(), epoch_of_single_samples())
    cohort = [0, 2]
    expected = P[cohort] @ local_models(THETA_0)[cohort] / P[cohort].sum()
    assert rounds.play(cohort)["theta"].item() == approx(expected)


def test_linear_losses_favour_clients_with_many_steps() -> None:
    """With constant gradients theta_1 = theta_0 - lr sum p_k tau_k s_k: client 0's slope counts 5 times."""
    slope = np.array([1.0, -2.0, 0.5])
    expected = THETA_0 - LR * (P * TAU) @ slope
    assert expected == approx(1.91)
    rounds = Rounds(FedAvg(OneWeight()), linear(slope.tolist()), epoch_of_single_samples())
    assert rounds.scalars(1) == approx([expected])


def test_fixed_point_is_biased_away_from_the_optimum() -> None:
    """With T steps the fixed point solves sum (1 - (1 - lr a_k)^T) (theta - b_k) = 0; 60 rounds shrink by 0.56 each."""
    pull = 1 - (1 - LR * A) ** 3
    expected = pull @ B / pull.sum()
    assert expected == approx(-0.191834089436163, abs=1e-14)
    rounds = Rounds(FedAvg(OneWeight(), weights="uniform"), quadratic(), steps(3))
    assert rounds.scalars(60)[-1] == approx(expected)
    assert abs(expected - OPTIMUM) > 0.09


def test_momentum_is_pytorchs_and_starts_at_zero_each_round() -> None:
    """v <- rho v + g, theta <- theta - lr v, as torch.optim.SGD steps; the second round begins without velocity."""
    theta, means = THETA_0, []
    for _ in range(2):
        ends = []
        for a, b, tau in zip(A, B, TAU, strict=True):
            weight = torch.tensor(theta, dtype=torch.float64, requires_grad=True)
            optimizer = torch.optim.SGD([weight], lr=LR, momentum=0.9)
            for _ in range(tau):
                optimizer.zero_grad()
                (a / 2 * (weight - b) ** 2).backward()
                optimizer.step()
            ends.append(weight.item())
        theta = float(P @ np.array(ends))
        means.append(theta)
    rounds = Rounds(FedAvg(OneWeight()), quadratic(), epoch_of_single_samples(momentum=0.9))
    assert rounds.scalars(2) == approx(means)


def test_reported_loss_is_the_mean_over_steps_then_over_clients_by_weight() -> None:
    """Client k's loss before step t is a_k / 2 ((1 - lr a_k)^t (theta_0 - b_k))^2."""
    rounds = Rounds(FedAvg(OneWeight()), quadratic(), epoch_of_single_samples())
    rounds.play()
    losses = [
        np.mean([a / 2 * ((1 - LR * a) ** t * (THETA_0 - b)) ** 2 for t in range(tau)])
        for a, b, tau in zip(A, B, TAU, strict=True)
    ]
    assert (rounds.total.sums["loss"] / rounds.total.sums["weight"]).item() == approx(float(P @ np.array(losses)))


def test_client_without_steps_keeps_the_received_model() -> None:
    """Batches of 3 without the last short one: clients of 5, 3, 2 samples take 1, 1, 0 steps; the weights stay n_k."""
    plan = Plan(batch_size=3, epochs=1, steps=None, lr=LR, drop_last=True)
    rounds = Rounds(FedAvg(OneWeight()), quadratic(), plan)
    locals_ = local_models(THETA_0, [1, 1, 0])
    assert rounds.scalars(1) == approx([P @ locals_])
    assert rounds.local[2].item() == THETA_0


@settings(max_examples=10, deadline=None)
@given(counts=st.lists(st.integers(1, 50), min_size=2, max_size=6), weights=st.sampled_from(WEIGHTS))
def test_identical_models_come_back_bit_equal(counts: list[int], weights: Weights) -> None:
    assert_identical_models_come_back(FedAvg(small_network(hidden=40), weights=weights), counts)


def test_order_of_clients_does_not_matter() -> None:
    assert_order_of_clients_does_not_matter(FedAvg(small_network()))


@pytest.mark.parametrize("lanes", [1, 3, 5, 8])
def test_mean_of_a_network_is_the_mean_of_its_local_models(lanes: int) -> None:
    """The server's float32 model is the float64 mean of theta^k by n_k, rounded once, whatever the groups."""
    clients = uneven_clients()
    rounds = Rounds(FedAvg(small_network()), clients, TWO_EPOCHS, lanes)
    theta = rounds.play()["theta"]
    mean = sum(len(part) * rounds.local[k].double() for k, part in enumerate(clients.parts)) / 25
    assert isinstance(mean, torch.Tensor)
    # the two float64 sums differ by a few roundings, which may carry a float32 over a rounding boundary: one bit
    torch.testing.assert_close(theta, mean.float(), rtol=2**-23, atol=0)


def test_fedavg_has_no_samples_on_the_server_and_leaves_a_trace_as_it_was() -> None:
    method = FedAvg(OneWeight())
    assert (method.proxy, method.proxy_batch, method.proxy_whole, method.priors({}, {})) == (0.0, 64, False, ())
    rounds = Rounds(method, quadratic(), epoch_of_single_samples())
    server = method.init()
    for group in rounds.groups(np.arange(len(TAU))):
        kept = group.train(server["theta"], method, server, {}, {"kept": torch.full_like(server["theta"], 3.0)})
        assert kept.trace["kept"].tolist() == [[3.0]] * group.lanes
