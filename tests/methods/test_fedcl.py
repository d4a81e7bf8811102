"""FedCL: its readings of Omega on softmax regression, its penalty, and the rounds without Omega."""

from __future__ import annotations

from typing import Any, Literal, get_args

import numpy as np
import pytest
import torch
from given import round_of_one_task
from quadratic import (
    THETA_0,
    A,
    B,
    Clients,
    OneWeight,
    Rounds,
    alike,
    approx,
    assert_order_of_clients_does_not_matter,
    descend,
    epoch_of_single_samples,
    linear,
    networks_after,
    quadratic,
    small_network,
    steps,
    uneven_clients,
)
from torch import Tensor, nn

from fl_ddp.engine.samples import Samples
from fl_ddp.importance.fedcl_omega import Reading
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fedcl import FedCL
from fl_ddp.methods.fedprox import FedProx
from fl_ddp.network.flat_model import FlatModel

COHORTS = [[0, 1, 2, 3, 4], [1, 2, 4], [0, 2, 3]]
NEVER = 10**9


class SoftmaxRegression(FlatModel):
    """The network of the readings' closed forms."""

    def __init__(self) -> None:
        linear_layer = nn.Linear(2, 3, dtype=torch.float64)
        linear_layer.weight.data = torch.tensor([[0.1, -0.2], [0.0, 0.3], [-0.1, 0.05]], dtype=torch.float64)
        linear_layer.bias.data = torch.tensor([0.0, 0.1, -0.1], dtype=torch.float64)
        super().__init__(linear_layer, 3, torch.zeros(1, 2, dtype=torch.float64))


def regression_samples(copies: int = 1) -> Clients:
    x = torch.tensor([[1.0, 2.0], [3.0, -1.0], [-0.5, 0.5]], dtype=torch.float64).repeat(copies, 1)
    return Clients(Samples(x, torch.tensor([0, 2, 1]).repeat(copies)), [np.arange(3 * copies)])


def omega_of(method: FedCL, clients: Clients, lanes: int = 2) -> Tensor:
    """The server's Omega at the initial model, all clients' samples being the server's."""
    return Rounds(method, clients, steps(1), lanes)._measured()["omega"]


MEAN_ABS = [
    0.842805420117492,
    0.754674443899108,
    0.545182649260186,
    0.552831125294087,
    0.929170288554573,
    0.481824711616510,
]
FISHER_W = [
    1.064179342578823,
    0.948451575834711,
    0.338371271386407,
    0.455797324788025,
    1.922928647117714,
    0.300151379449228,
]
FISHER_B = [0.331378184993253, 0.239544190679737, 0.263441142542524]


def test_per_param_readings_are_means_over_samples() -> None:
    squares = omega_of(FedCL(SoftmaxRegression()), regression_samples())
    assert squares.tolist() == approx(FISHER_W + FISHER_B)
    absolute = omega_of(FedCL(SoftmaxRegression(), omega="per_param_abs"), regression_samples())
    assert absolute[:6].tolist() == approx(MEAN_ABS)


def test_the_codes_reading_is_one_number_a_tensor_divided_by_the_number_of_samples() -> None:
    omega = omega_of(FedCL(SoftmaxRegression(), omega="per_tensor"), regression_samples())
    assert omega[:6].tolist() == approx([0.544507258931073] * 6)
    assert len(set(omega[6:].tolist())) == 1


def test_the_global_reading_is_the_mean_norm_of_a_samples_gradient() -> None:
    omega = omega_of(FedCL(SoftmaxRegression(), omega="global"), regression_samples())
    assert omega.tolist() == approx([2.2070064053081695] * 9)


def test_mas_is_the_gradient_of_the_squared_norm_of_the_logits() -> None:
    """f = W x, W = [[1, 0], [.5, 1]], x = (1, -2): |2 f_k x_j|."""
    layer = nn.Linear(2, 2, bias=False, dtype=torch.float64)
    layer.weight.data = torch.tensor([[1.0, 0.0], [0.5, 1.0]], dtype=torch.float64)
    model = FlatModel(layer, 2, torch.zeros(1, 2, dtype=torch.float64))
    clients = alike(torch.tensor([[1.0, -2.0]], dtype=torch.float64), [4])
    assert omega_of(FedCL(model, omega="mas"), clients).tolist() == approx([2, 4, 3, 6])


def test_si_is_the_path_integral_over_the_squared_change() -> None:
    """Descent on a = 2, b = 1 from 2 with lr .1, 7 steps; w = 1.0622, Omega = w / ((theta - theta_0)^2 + xi)."""
    xi = 1e-3
    method = FedCL(OneWeight(), omega="si", xi=xi, proxy_batch=1)
    rounds = Rounds(method, quadratic([2.0], [1.0], [0.0], [7]), epoch_of_single_samples())
    found = rounds._measured()["omega"].item()
    moved = (descend(2.0, 1.0, 2.0, 7) - 2.0) ** 2
    assert found == approx(1.0622439276544 / (moved + xi))
    # w / moved is the closed form without damping
    assert found * (moved + xi) / moved == approx(1.700814693639559)


@pytest.mark.parametrize("omega", ["per_param_sq", "per_param_abs", "global", "mas"])
def test_copies_of_the_servers_samples_change_nothing(omega: Any) -> None:
    once = omega_of(FedCL(SoftmaxRegression(), omega=omega), regression_samples())
    assert omega_of(FedCL(SoftmaxRegression(), omega=omega), regression_samples(5)).tolist() == approx(once.tolist())


@pytest.mark.parametrize("omega", ["per_param_sq", "per_param_abs", "global", "mas"])
def test_omega_does_not_depend_on_how_the_samples_are_dealt(omega: Any) -> None:
    whole = regression_samples(4)
    cut = Clients(whole.samples, [np.arange(5), np.arange(5, 6), np.arange(6, 12)])
    method = FedCL(SoftmaxRegression(), omega=omega)
    assert omega_of(method, cut, 2).tolist() == approx(omega_of(method, whole, 1).tolist())


@pytest.mark.parametrize(("omega", "expected"), [(0.4, 1.53248), (1.0, 1.562)])
def test_clients_descend_the_penalised_objective(omega: float, expected: float) -> None:
    """Client 1, lam .5: A = a + 2 lam Omega, B = (a b + 2 lam Omega theta_t) / A, 3 steps."""
    rounds = Rounds(FedCL(OneWeight(), lam=0.5, every=NEVER), quadratic(), epoch_of_single_samples())
    # a round without Omega: the client has what init() gives
    rounds.finished = 1
    method = FedCL(OneWeight(), lam=0.5 * omega, every=NEVER)
    rounds.method = method
    rounds.play([1])
    stiff = A[1] + 2 * 0.5 * omega
    assert rounds.local_scalars() == approx([expected])
    assert rounds.local_scalars() == approx([descend(stiff, (A[1] * B[1] + omega * THETA_0) / stiff, THETA_0, 3)])


def play_from_round_1(method: FedAvg, cohorts: list[list[int]]) -> Tensor:
    rounds = Rounds(method, uneven_clients(), steps(4, momentum=0.5))
    rounds.finished = 1
    for cohort in cohorts:
        rounds.play(cohort)
    return rounds.server["theta"]


def test_identity_is_fedprox_with_twice_lam() -> None:
    fedcl = play_from_round_1(FedCL(small_network(), lam=0.35, every=NEVER), COHORTS)
    torch.testing.assert_close(fedcl, play_from_round_1(FedProx(small_network(), mu=0.7), COHORTS), rtol=0, atol=1e-6)


def test_skip_is_fedavg_in_rounds_without_omega() -> None:
    fedcl = play_from_round_1(FedCL(small_network(), every=NEVER, missing="skip"), COHORTS)
    assert fedcl.equal(play_from_round_1(FedAvg(small_network()), COHORTS))


def test_last_keeps_what_a_client_last_received() -> None:
    """Omega of round 0 still counts in round 1 for those who were there; another has the identity."""
    method = FedCL(small_network(), every=2, missing="last")
    rounds = Rounds(method, uneven_clients(), steps(2))
    rounds.play([0, 1])
    omega = rounds.server["omega"]
    assert rounds.remembered("omega")[0].equal(omega)
    assert rounds.remembered("omega")[2].equal(torch.ones_like(omega))
    rounds.play([1, 2])
    assert rounds.remembered("omega")[1].equal(omega)


def test_every_0_never_measures() -> None:
    method = FedCL(small_network(), every=0, missing="skip")
    assert not any(method.measures(t) for t in range(5))
    assert networks_after(method, COHORTS)["theta"].equal(networks_after(FedAvg(small_network()), COHORTS)["theta"])


def test_local_measures_on_the_clients_own_samples() -> None:
    """One client whose samples are the server's: its own Omega is the server's, so both policies train alike."""
    clients = regression_samples(2)
    thetas = []
    for every in (1, NEVER):
        rounds = Rounds(FedCL(SoftmaxRegression(), lam=5.0, every=every, missing="local"), clients, steps(3))
        rounds.finished = 1
        thetas.append(rounds.play()["theta"])
    assert thetas[0].tolist() == approx(thetas[1].tolist())
    assert (thetas[0] - Rounds(FedAvg(SoftmaxRegression()), clients, steps(3)).play()["theta"]).abs().max() > 1e-4


@pytest.mark.parametrize("omega", get_args(Reading))
def test_lam_0_is_fedavg_bit_for_bit(omega: Reading) -> None:
    theta = networks_after(FedAvg(small_network()), COHORTS)["theta"]
    ways: tuple[Literal["identity", "local", "skip", "last"], ...] = ("identity", "local", "skip", "last")
    steps: tuple[Literal["explicit", "proximal"], ...] = ("explicit", "proximal")
    for missing, step in zip(ways, 2 * steps, strict=True):
        method = FedCL(small_network(), lam=0.0, omega=omega, missing=missing, penalty_step=step)
        assert theta.equal(networks_after(method, COHORTS)["theta"]), (missing, step)


def test_constant_gradients_pull_against_the_penalty() -> None:
    """Slope s, Omega 1, lam .5, exact proximal steps: theta <- (theta - lr s + lr theta_t) / (1 + lr)."""
    method = FedCL(OneWeight(), lam=0.5, every=NEVER, penalty_step="proximal")
    rounds = Rounds(method, linear([1.0, -2.0, 0.5]), steps(3))
    rounds.finished = 1
    rounds.play()
    for slope, found in zip((1.0, -2.0, 0.5), rounds.local_scalars(), strict=True):
        theta = THETA_0
        for _ in range(3):
            theta = (theta - 0.1 * slope + 0.1 * THETA_0) / 1.1
        assert found == approx(theta)


def test_omega_travels_every_nth_round() -> None:
    method = FedCL(small_network(), every=3)
    assert [len(method.sent(round_of_one_task(t))) for t in range(7)] == [2, 1, 1, 2, 1, 1, 2]


def test_order_of_clients_does_not_matter() -> None:
    for missing in ("identity", "last", "local"):
        assert_order_of_clients_does_not_matter(FedCL(small_network(), every=2, missing=missing))


def test_a_clients_own_path_is_no_training_that_a_kept_optimizer_may_begin_with() -> None:
    model = small_network()
    assert FedAvg(model).keeps_optimizer and FedCL(model).keeps_optimizer
    assert FedCL(model, omega="si").keeps_optimizer and FedCL(model, missing="local").keeps_optimizer
    assert not FedCL(model, omega="si", missing="local").keeps_optimizer
