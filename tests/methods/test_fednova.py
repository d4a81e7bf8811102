"""FedNova on the quadratic federation Q and on linear losses: normalised changes and the steps the server takes."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
import torch
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
    descend,
    epoch_of_single_samples,
    linear,
    local_models,
    quadratic,
    small_network,
    steps,
)

from fl_ddp.engine.plan import Plan
from fl_ddp.errors import ConfigError
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fednova import FedNova
from fl_ddp.methods.fedprox import FedProx

Weights = Literal["data", "uniform"]
WEIGHTS: tuple[Weights, ...] = ("data", "uniform")
RHO = 0.9
SLOPE = np.array([1.0, -2.0, 0.5])


def momentum_norm(tau: int, rho: float) -> float:
    """A gradient r steps before the end has weight 1 + rho + ... + rho^r: ||a||_1 is the sum over the steps."""
    return sum(sum(rho**i for i in range(r + 1)) for r in range(tau))


def proximal_norm(tau: int, mu: float, lr: float = LR) -> float:
    """The official optimiser's recursion: a <- (1 - lr mu) a + 1 at every step."""
    a = 0.0
    for _ in range(tau):
        a = (1 - lr * mu) * a + 1
    return a


def progress_of(rounds: Rounds) -> list[float]:
    """||a_k||_1 of every client, as the method has it."""
    assert isinstance(rounds.method, FedNova)
    values: list[float] = []
    for group in rounds.groups(np.arange(3)):
        values += rounds.method.progress(group)[group.real > 0].tolist()
    return values


def test_plain_sgd_normalises_by_steps() -> None:
    """theta_1 = theta_0 - tau_eff sum p_k (theta_0 - theta^k) / tau_k with tau_eff = sum p_k tau_k."""
    tau_eff = P @ TAU
    expected = THETA_0 - tau_eff * P @ ((THETA_0 - local_models(THETA_0)) / TAU)
    assert [tau_eff, expected] == approx([3.8, 0.7737324])
    rounds = Rounds(FedNova(OneWeight()), quadratic(), epoch_of_single_samples())
    assert rounds.scalars(1) == approx([expected])
    assert (rounds.total.sums["steps"] / rounds.total.sums["weight"]).item() == approx(tau_eff)


def test_momentum_normalises_by_the_weights_of_gradients() -> None:
    """As with plain SGD, ||a_k||_1 in place of tau_k; theta^k from v <- rho v + g, theta <- theta - lr v."""
    ends, norms = [], np.array([momentum_norm(tau, RHO) for tau in TAU])
    for a, b, tau in zip(A, B, TAU, strict=True):
        theta, v = THETA_0, 0.0
        for _ in range(tau):
            v = RHO * v + a * (theta - b)
            theta -= LR * v
        ends.append(theta)
    tau_eff = P @ norms
    expected = THETA_0 - tau_eff * P @ ((THETA_0 - np.array(ends)) / norms)
    assert ends == approx([-0.05832, 1.062, -1.0])
    assert norms == approx([13.1441, 5.61, 2.9])
    assert [tau_eff, expected] == approx([8.83505, -0.9628802019702909])
    rounds = Rounds(FedNova(OneWeight()), quadratic(), epoch_of_single_samples(momentum=RHO))
    assert progress_of(rounds) == approx(norms)
    assert rounds.scalars(1) == approx([expected])
    assert rounds.local_scalars() == approx(ends)
    assert (rounds.total.sums["steps"] / rounds.total.sums["weight"]).item() == approx(tau_eff)


@pytest.mark.parametrize("rho", [0.0, 0.5, 0.9, 0.99])
def test_linear_losses_are_free_of_objective_inconsistency(rho: float) -> None:
    """With constant gradients d_k = lr s_k, so theta_1 = theta_0 - lr tau_eff sum p_k s_k, whatever the tau_k."""
    tau_eff = P @ np.array([momentum_norm(tau, rho) for tau in TAU])
    expected = THETA_0 - LR * tau_eff * P @ SLOPE
    assert expected == approx(2.0), "P @ SLOPE is 0: the clients' mean loss is flat"
    rounds = Rounds(FedNova(OneWeight()), linear(SLOPE.tolist()), epoch_of_single_samples(momentum=rho))
    assert rounds.scalars(1) == approx([expected])
    tilted = SLOPE + 1.0
    rounds = Rounds(FedNova(OneWeight()), linear(tilted.tolist()), epoch_of_single_samples(momentum=rho))
    assert rounds.scalars(1) == approx([THETA_0 - LR * tau_eff * P @ tilted])


@pytest.mark.parametrize("mu", [0.7, 1e-3, 10.0, 15.0])
def test_proximal_progress_is_the_recursion_of_the_official_code(mu: float) -> None:
    rounds = Rounds(FedNova(OneWeight(), mu=mu), quadratic(), epoch_of_single_samples())
    assert progress_of(rounds) == approx([proximal_norm(tau, mu) for tau in TAU])


def test_proximal_progress_is_right_for_weak_pulls_in_float32() -> None:
    """At lr mu = 1e-6, 1 - (1 - lr mu)^tau keeps one or two digits in float32, ten in float64; seven are asked for."""
    rounds = Rounds(FedNova(small_network(), mu=1e-5), quadratic(), epoch_of_single_samples())
    assert progress_of(rounds) == approx([proximal_norm(tau, 1e-5) for tau in TAU], abs=1e-7)


def test_proximal_local_run_takes_progress_steps_along_a_constant_gradient() -> None:
    """theta_0 - theta^k = lr ||a_k||_1 s_k, so d_k = lr s_k; the server takes sum p_k tau_k of them."""
    mu, slope = 0.7, SLOPE + 1.0
    rounds = Rounds(FedNova(OneWeight(), mu=mu), linear(slope.tolist()), epoch_of_single_samples())
    theta = rounds.scalars(1)
    norms = np.array([proximal_norm(tau, mu) for tau in TAU])
    assert rounds.local_scalars() == approx(THETA_0 - LR * norms * slope)
    assert theta == approx([THETA_0 - LR * (P @ TAU) * (P @ slope)])


def test_proximal_rounds_on_quadratics_start_from_fedprox_models() -> None:
    """Locals are FedProx's; theta_1 = theta_0 - (sum p_k tau_k) sum p_k (theta_0 - theta^k) / ||a_k||_1."""
    mu = 0.7
    ends = np.array(
        [descend(a + mu, (a * b + mu * THETA_0) / (a + mu), THETA_0, t) for a, b, t in zip(A, B, TAU, strict=True)]
    )
    norms = np.array([proximal_norm(tau, mu) for tau in TAU])
    rounds = Rounds(FedNova(OneWeight(), mu=mu), quadratic(), epoch_of_single_samples())
    assert rounds.scalars(1) == approx([THETA_0 - (P @ TAU) * (P @ ((THETA_0 - ends) / norms))])
    fedprox = Rounds(FedProx(OneWeight(), mu=mu), quadratic(), epoch_of_single_samples())
    fedprox.play()
    assert rounds.local == fedprox.local


def test_proximal_term_with_momentum_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"^--method\.mu: 0\.1, but .*; accepted: 0, or --momentum 0 beside it"):
        FedNova(OneWeight(), mu=0.1).refuse(epoch_of_single_samples(momentum=0.9), told_task=False)
    for mu, momentum in ((0.1, 0.0), (0.0, 0.9)):
        FedNova(OneWeight(), mu=mu).refuse(epoch_of_single_samples(momentum=momentum), told_task=True)


@pytest.mark.parametrize("rho", [0.0, 0.9])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_equal_steps_give_fedavg(rho: float, weights: Weights) -> None:
    """||a_k||_1 = ||a||_1 for all clients cancels: tau_eff sum p_k d_k = sum p_k (theta_t - theta^k)."""
    nova = Rounds(FedNova(OneWeight(), weights=weights), quadratic(), steps(4, momentum=rho))
    fedavg = Rounds(FedAvg(OneWeight(), weights=weights), quadratic(), steps(4, momentum=rho))
    assert nova.scalars(3) == approx(fedavg.scalars(3))


def test_uniform_weights_and_server_lr() -> None:
    """p_k = 1/3: theta_1 = theta_0 - server_lr mean(tau) mean((theta_0 - theta^k) / tau_k)."""
    rounds = Rounds(FedNova(OneWeight(), weights="uniform", server_lr=0.3), quadratic(), epoch_of_single_samples())
    normalised = (THETA_0 - local_models(THETA_0)) / TAU
    assert rounds.scalars(1) == approx([THETA_0 - 0.3 * TAU.mean() * normalised.mean()])


@pytest.mark.parametrize("mu", [0.0, 0.7])
def test_client_without_steps_adds_nothing_to_changes_and_steps(mu: float) -> None:
    """Batches of 3 without the last short one: client 2, with 2 samples, takes no step and has no d_k = 0 / 0."""
    plan = Plan(batch_size=3, epochs=1, steps=None, lr=LR, drop_last=True)
    with_idle = Rounds(FedNova(OneWeight(), mu=mu), quadratic(), plan)
    without = Rounds(FedNova(OneWeight(), mu=mu), quadratic(), plan)
    theta = with_idle.play([0, 1, 2])["theta"]
    without.play([0, 1])
    for name in ("delta", "steps"):
        assert torch.equal(with_idle.total.sums[name], without.total.sums[name])
    assert with_idle.local[2].item() == THETA_0
    assert theta.isfinite().all()


def test_cohort_without_any_step_keeps_the_model() -> None:
    plan = Plan(batch_size=3, epochs=1, steps=None, lr=LR, drop_last=True)
    rounds = Rounds(FedNova(OneWeight()), quadratic(), plan)
    assert rounds.play([2])["theta"].item() == THETA_0


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_identical_models_come_back_bit_equal(momentum: float) -> None:
    """With equal steps, FedNova is FedAvg also in float32."""
    assert_identical_models_come_back(FedNova(small_network(hidden=40)), [7, 5, 3, 2], momentum)


def test_order_of_clients_does_not_matter() -> None:
    assert_order_of_clients_does_not_matter(FedNova(small_network()))


@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize(("rho", "mu"), [(0.0, 0.0), (0.9, 0.0), (0.0, 0.7)])
def test_equal_steps_are_averaged_as_by_fedavg_with_clients_beside_that_take_none(
    weights: Weights, rho: float, mu: float
) -> None:
    """Of 6, 7 and 2 samples there are two, two and no full batches of three; with mu, tau_k is over ||a_k||_1."""
    plan = Plan(batch_size=3, epochs=1, steps=None, lr=LR, momentum=rho, drop_last=True)
    clients, model = quadratic(counts=[6, 7, 2]), OneWeight()
    plain = FedProx(model, mu=mu, weights=weights) if mu else FedAvg(model, weights=weights)
    theirs = Rounds(plain, clients, plan).scalars(1) - THETA_0
    ours = Rounds(FedNova(model, mu=mu, weights=weights), clients, plan).scalars(1) - THETA_0
    assert ours * (proximal_norm(2, mu) / 2 if mu else 1) == approx(theirs)
    assert abs(theirs.item()) > 0.01


def test_a_round_in_which_nobody_has_a_full_batch_changes_nothing() -> None:
    plan = Plan(batch_size=9, epochs=1, steps=None, lr=LR, drop_last=True)
    assert Rounds(FedNova(OneWeight()), quadratic(), plan).scalars(1) == approx([THETA_0])
