"""FedOpt on the quadratic federation Q: the server's three rules."""

from __future__ import annotations

import math

import pytest
from quadratic import (
    THETA_0,
    OneWeight,
    P,
    Rounds,
    approx,
    assert_order_of_clients_does_not_matter,
    epoch_of_single_samples,
    local_models,
    networks_after,
    quadratic,
    small_network,
)

from fl_ddp.methods.fedopt import FedOpt

COHORTS = [[0, 1, 2, 3, 4], [1, 2, 4]]


def change(theta: float) -> float:
    """Delta = sum p_k theta^k - theta."""
    return float(P @ local_models(theta)) - theta


def test_the_first_two_rounds_of_fedadam() -> None:
    """v_0 = tau^2; no mean is corrected for its start."""
    lr, tau = 0.5, 0.1
    first_change = change(THETA_0)
    m, v = 0.1 * first_change, 0.99 * tau**2 + 0.01 * first_change**2
    first = THETA_0 + lr * m / (math.sqrt(v) + tau)
    second_change = change(first)
    m, v = 0.9 * m + 0.1 * second_change, 0.99 * v + 0.01 * second_change**2
    second = first + lr * m / (math.sqrt(v) + tau)
    rounds = Rounds(FedOpt(OneWeight(), server_lr=lr, tau=tau), quadratic(), epoch_of_single_samples())
    assert rounds.scalars(2) == approx([first, second])


@pytest.mark.parametrize("rule", ["adam", "yogi", "adagrad"])
@pytest.mark.parametrize("tau", [1e-3, 3.0])
def test_rules_follow_the_recursion(rule: str, tau: float) -> None:
    lr, beta1, beta2, theta, m, v, expected = 0.2, 0.5, 0.8, THETA_0, 0.0, tau**2, []
    for _ in range(6):
        delta = change(theta)
        m = beta1 * m + (1 - beta1) * delta
        if rule == "adagrad":
            v += delta**2
        elif rule == "yogi":
            v -= (1 - beta2) * delta**2 * (1 if v > delta**2 else -1)
        else:
            v = beta2 * v + (1 - beta2) * delta**2
        theta += lr * m / (math.sqrt(v) + tau)
        expected.append(theta)
    options = {"server_lr": lr, "beta1": beta1, "beta2": beta2, "tau": tau}
    method = FedOpt(OneWeight(), rule=rule, **options)  # type: ignore[arg-type]
    assert Rounds(method, quadratic(), epoch_of_single_samples()).scalars(6) == approx(expected)


def test_yogis_v_falls_where_changes_are_small_and_rises_where_they_are_large() -> None:
    method = FedOpt(OneWeight(), rule="yogi", beta2=0.9)
    v = method.init()["v"]
    assert method.second(v + 1, v * 0 + 0.25).item() == pytest.approx(1 + 1e-6 - 0.1 * 0.25)
    assert method.second(v + 1, v * 0 + 4).item() == pytest.approx(1 + 1e-6 + 0.1 * 4)


def test_a_step_has_no_more_than_server_lr_where_tau_is_small() -> None:
    """Adagrad without momentum: |m| / sqrt(v) is at most 1."""
    method = FedOpt(small_network(), rule="adagrad", beta1=0.0, tau=1e-12, server_lr=0.01)
    before, after = method.init()["theta"], networks_after(method, COHORTS[:1])["theta"]
    moved = (after - before).abs()
    assert moved.max() <= 0.01 + 1e-7 and moved.max() > 0.009


def test_order_of_clients_does_not_matter() -> None:
    assert_order_of_clients_does_not_matter(FedOpt(small_network()))
