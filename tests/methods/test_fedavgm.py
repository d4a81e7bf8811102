"""FedAvgM on the quadratic federation Q: the server's momentum and its variants."""

from __future__ import annotations

import pytest
import torch
from quadratic import (
    THETA_0,
    OneWeight,
    P,
    Rounds,
    approx,
    assert_identical_models_come_back,
    assert_order_of_clients_does_not_matter,
    assert_same_bits,
    epoch_of_single_samples,
    local_models,
    networks_after,
    quadratic,
    small_network,
)

from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fedavgm import FedAvgM

COHORTS = [[0, 1, 2, 3, 4], [1, 2, 4]]


def change(theta: float) -> float:
    """d = theta - sum p_k theta^k."""
    return float(theta - P @ local_models(theta))


def test_two_rounds_are_the_heavy_ball() -> None:
    """v_1 = d(theta_0), theta_1 = theta_0 - v_1; v_2 = 0.9 v_1 + d(theta_1), theta_2 = theta_1 - v_2."""
    first = THETA_0 - change(THETA_0)
    second = first - (0.9 * change(THETA_0) + change(first))
    assert [first, second] == approx([1.06009, -0.27537642395])
    rounds = Rounds(FedAvgM(OneWeight(), beta=0.9), quadratic(), epoch_of_single_samples())
    assert rounds.scalars(2) == approx([first, second])


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("dampening", [0.0, 0.6])
@pytest.mark.parametrize("server_lr", [1.0, 0.3])
def test_variants_follow_the_recursion(nesterov: bool, dampening: float, server_lr: float) -> None:
    """v <- beta v + (1 - dampening) d; theta <- theta - server_lr (d + beta v if nesterov else v)."""
    beta, theta, v, expected = 0.6, THETA_0, 0.0, []
    for _ in range(4):
        d = change(theta)
        v = beta * v + (1 - dampening) * d
        theta -= server_lr * (d + beta * v if nesterov else v)
        expected.append(theta)
    method = FedAvgM(OneWeight(), beta=beta, dampening=dampening, nesterov=nesterov, server_lr=server_lr)
    assert Rounds(method, quadratic(), epoch_of_single_samples()).scalars(4) == approx(expected)


@pytest.mark.parametrize("nesterov", [False, True])
def test_undampened_step_is_torch_sgds(nesterov: bool) -> None:
    """PyTorch starts its buffer with the first gradient, undampened; without dampening that is beta 0 + d."""
    weight = torch.tensor(THETA_0, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5, momentum=0.9, nesterov=nesterov)
    expected = []
    for _ in range(3):
        weight.grad = torch.tensor(change(weight.item()), dtype=torch.float64)
        optimizer.step()
        expected.append(weight.item())
    method = FedAvgM(OneWeight(), beta=0.9, nesterov=nesterov, server_lr=0.5)
    assert Rounds(method, quadratic(), epoch_of_single_samples()).scalars(3) == approx(expected)


def test_dampening_beta_makes_v_a_running_mean_of_the_change() -> None:
    """With d constant, v_t = (1 - beta^t) d: a client whose steps do not depend on theta."""
    slope = 1.0
    clients = quadratic([0.0], [0.0], [slope], [2])
    rounds = Rounds(FedAvgM(OneWeight(), beta=0.8, dampening=0.8), clients, epoch_of_single_samples())
    d = 2 * rounds.plan.lr * slope
    assert rounds.scalars(3, "v") == approx([(1 - 0.8**t) * d for t in (1, 2, 3)])


def test_beta_0_is_fedavg_bit_for_bit() -> None:
    fedavgm = networks_after(FedAvgM(small_network(), beta=0.0), COHORTS)
    assert_same_bits({"theta": fedavgm["theta"]}, networks_after(FedAvg(small_network()), COHORTS))


def test_beta_above_0_is_not_fedavg_from_the_second_round_on() -> None:
    method, fedavg = FedAvgM(small_network(), beta=0.5), FedAvg(small_network())
    first = networks_after(method, COHORTS[:1])["theta"]
    assert first.equal(networks_after(fedavg, COHORTS[:1])["theta"])
    assert not networks_after(method, COHORTS)["theta"].equal(networks_after(fedavg, COHORTS)["theta"])


def test_identical_models_come_back_bit_equal_in_the_first_round() -> None:
    assert_identical_models_come_back(FedAvgM(small_network(hidden=40)), [5, 3, 2])


def test_order_of_clients_does_not_matter() -> None:
    assert_order_of_clients_does_not_matter(FedAvgM(small_network()))
