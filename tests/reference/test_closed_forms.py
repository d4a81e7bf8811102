"""The reference against numbers that were worked out by hand.

The federation is of three clients with losses a / 2 (theta - b)^2 in one number theta, from theta_0 = 2, full batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import importance
import pytest
import torch
from fedavg import FedAvg, Update
from fedavgm import FedAvgM
from fedcl import FedCL
from fedcurv import FedCurv
from feddyn import FedDyn
from fednova import FedNova
from fedprox import FedProx
from fisheravg import FisherAvg
from importance import FisherOptions, fisher
from local_training import Client, Model, State, local_sgd
from parameters import Parameters
from path_integral import integral, rwalk, si
from scaffold import Scaffold
from torch import Tensor, nn

A, B, SIZES, STEPS = (1.0, 2.0, 4.0), (0, 1, -1), (5, 3, 2), (5, 3, 2)
THETA = Parameters(w=torch.tensor([2.0], dtype=torch.float64))


class Quadratic(Model):
    """a / 2 (theta - b)^2 of samples (a, b)."""

    def __init__(self) -> None:
        super().__init__(nn.Linear(1, 1))
        self.leaf = torch.zeros(0)

    def loss(self, theta: Parameters, x: Tensor, y: Tensor) -> Tensor:
        self.leaf = theta["w"].clone().requires_grad_()
        return (x / 2 * (self.leaf - y) ** 2).mean()

    def gradient(self, value: Tensor) -> Parameters:
        return Parameters(w=torch.autograd.grad(value, self.leaf)[0])


def client(k: int, steps: int, model: Model | None = None, momentum: float = 0.0) -> Client:
    """Client k of the federation."""
    x, y = torch.full((SIZES[k],), A[k], dtype=torch.float64), torch.full((SIZES[k],), B[k])
    everything = range(SIZES[k])
    return Client(
        k, model or Quadratic(), x, y, [everything] * steps, everything, without_noise, 0.1, momentum, weight_decay=0.0
    )


def played(method: FedAvg, rounds: int, steps: Sequence[int] = STEPS, momentum: float = 0.0) -> list[State]:
    """The server's state after each round in which all clients take part."""
    states, server = [], method.server_start(THETA, 3)
    memory = [method.client_start(THETA)] * 3
    for t in range(rounds):
        clients = [client(k, steps[k], momentum=momentum) for k in range(3)]
        updates = [method.client_update(clients[k], server, memory[k], t) for k in range(3)]
        memory = [update.memory for update in updates]
        server = method.server_update(server, updates, 3, t)
        states.append(server)
    return states


def without_noise(batch_size: int | None, draw: int) -> Tensor:
    """Of clients that draw no labels."""
    return torch.zeros(0)


def number(parameters: Parameters) -> float:
    return float(parameters["w"])


def close(value: float, digits: float = 1e-9) -> object:
    return pytest.approx(value, rel=digits)


@pytest.mark.parametrize(
    ("method", "momentum", "expected"),
    [
        (FedAvg(), 0.0, (1.06009, 0.57054257605)),
        (FedProx(mu=0.7), 0.0, (1.140498979,)),
        (FedAvgM(beta=0.9), 0.0, (1.06009, -0.27537642395)),
        (FedNova(), 0.0, (0.7737324,)),
        (FedNova(), 0.9, (-0.9628802019702909,)),
    ],
    ids=str,
)
def test_rounds_of_quadratics(method: FedAvg, momentum: float, expected: Sequence[float]) -> None:
    found = [number(server["theta"]) for server in played(method, len(expected), momentum=momentum)]
    assert found == [close(value) for value in expected]


def test_scaffold_on_quadratics() -> None:
    first, second = played(Scaffold(), 2, (3, 3, 3))
    assert (number(first["theta"]), number(first["c"])) == (close(0.872666666666667), close(3.757777777777778))
    assert (number(second["theta"]), number(second["c"])) == (close(0.242282888888889), close(2.101279259259258))


def test_feddyn_on_quadratics_that_are_solved() -> None:
    first, second = played(FedDyn(alpha=0.5), 2, (300, 300, 300))
    assert (number(first["theta"]), number(first["h"])) == (close(-1.2), close(0.8))
    assert (number(second["theta"]), number(second["h"])) == (close(-0.374320987654321), close(0.193580246913580))


def of(value: float) -> Parameters:
    return THETA.filled(value)


@pytest.mark.parametrize(
    ("method", "k", "steps", "server", "expected"),
    [
        (FedCL(lam=0.5), 1, 3, {"theta": THETA, "omega": of(0.4)}, 1.53248),
        (FedCL(lam=0.5, every=0), 1, 3, {"theta": THETA, "omega": of(0.4)}, 1.562),
        (FisherAvg(lam=3, penalty_step="explicit"), 1, 3, {"theta": THETA, "fisher": of(0.4)}, 1.57152),
        (
            FedCurv(),
            0,
            4,
            {
                "theta": of((1.18098 + 1.512 + 0.08) / 3),
                **{f"I of {j}": of(value) for j, value in enumerate((0.2, 0.5, 1.0))},
                **{f"theta of {j}": of(value) for j, value in enumerate((1.18098, 1.512, 0.08))},
            },
            0.483619936,
        ),
    ],
    ids=str,
)
def test_a_client_that_is_held(method: FedAvg, k: int, steps: int, server: State, expected: float) -> None:
    nothing = server | {"score": of(0)}
    assert number(method.client_update(client(k, steps), nothing, {}, 1).theta) == close(expected)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, (2.25, 2)),
        ({"layer_norm": "none"}, (1.5, 2)),
        ({"layer_norm": "l1"}, (2.4, 2)),
        ({"compat_eps": 1e-8}, (2.2499999859375, 1.999999975)),
    ],
)
def test_the_fisher_weighted_mean(options: dict[str, object], expected: tuple[float, float]) -> None:
    def update(theta: Sequence[float], f: Sequence[float]) -> Update:
        named = Parameters(w=torch.tensor(theta, dtype=torch.float64))
        return Update(client(0, 1), named, 0.0, sent={"fisher": Parameters(w=torch.tensor(f, dtype=torch.float64))})

    method = FisherAvg(**options)  # type: ignore[arg-type]
    start = method.server_start(Parameters(w=torch.zeros(2, dtype=torch.float64)), 2)
    server = method.server_update(start, [update((1, 2), (3, 4)), update((3, 6), (1, 0))], 2, 0)
    assert server["theta"]["w"].tolist() == [close(value, 1e-12) for value in expected]


def test_the_old_fisher_weighs_more() -> None:
    assert number(FisherAvg(gamma=0.9).mixed(of(1), of(2), 1)) == close(1.1)


def test_path_integrals() -> None:
    path, r = local_sgd(client(1, 7), THETA).path, 0.8
    w, change, first_gradient = 1.0622439276544, r**7 - 1, 2.0
    assert number(integral(path)) == close(w)
    assert number(si(path, THETA, 0.0)) == close(1.700814693639559)
    assert number(rwalk(path, THETA, 7, 0.9, 1e-3)) == close(w / (0.5 * first_gradient**2 * change**2 + 1e-3))


class Softmax(nn.Module):
    """Softmax regression from given weights."""

    def __init__(self, weight: Sequence[Sequence[float]], bias: Sequence[float] | None) -> None:
        super().__init__()
        self.linear = nn.Linear(2, len(weight), bias=bias is not None, dtype=torch.float64)
        with torch.no_grad():
            self.linear.weight.copy_(torch.tensor(weight, dtype=torch.float64))
            if bias is not None:
                self.linear.bias.copy_(torch.tensor(bias, dtype=torch.float64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.linear(x)


def owner(module: nn.Module, x: Sequence[Sequence[float]], y: Sequence[int]) -> tuple[Client, Parameters]:
    """Someone with samples, and the module's parameters."""
    model, n = Model(module), len(y)
    inputs = torch.tensor(x, dtype=torch.float64)
    return Client(0, model, inputs, torch.tensor(y), [], range(n), without_noise, 0.1, 0.0, 0.0), model.initial()


THREE = (
    Softmax([[0.1, -0.2], [0.0, 0.3], [-0.1, 0.05]], [0.0, 0.1, -0.1]),
    ((1.0, 2.0), (3.0, -1.0), (-0.5, 0.5)),
    (0, 2, 1),
)
EMPIRICAL = [
    [1.064179342578823, 0.948451575834711],
    [0.338371271386407, 0.455797324788025],
    [1.922928647117714, 0.300151379449228],
]
EXACT = [
    [0.817588254682623, 0.314939475051139],
    [0.685122306217916, 0.414858618575111],
    [0.569492098959714, 0.320465955750676],
]
MAGNITUDES = [
    [0.842805420117492, 0.754674443899108],
    [0.545182649260186, 0.552831125294087],
    [0.929170288554573, 0.481824711616510],
]


def same(found: Tensor, expected: Sequence[float] | Sequence[Sequence[float]]) -> bool:
    return torch.allclose(found, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)


def test_fisher_information_of_softmax_regression() -> None:
    someone, theta = owner(*THREE)
    empirical = fisher(someone, theta, FisherOptions("empirical", "per_sample_mean", 100, 0))
    assert same(empirical["linear.weight"], EMPIRICAL)
    assert same(empirical["linear.bias"], [0.331378184993253, 0.239544190679737, 0.263441142542524])
    exact = fisher(someone, theta, FisherOptions("exact", "per_sample_mean", 100, 0))
    assert same(exact["linear.weight"], EXACT)


def test_fisher_information_of_a_batch() -> None:
    someone, theta = owner(Softmax([[0.0, 0.0]] * 2, [0.0] * 2), ((1.0, 2.0), (3.0, -1.0)), (0, 1))
    batch = fisher(someone, theta, FisherOptions("empirical", "batch_mean_sq", 2, 0))
    assert same(batch["linear.weight"], [[0.25, 0.5625]] * 2)


def test_readings_of_omega() -> None:
    someone, theta = owner(*THREE)
    assert same(importance.mean_squared(someone, theta)["linear.weight"], EMPIRICAL)
    assert same(importance.mean_absolute(someone, theta)["linear.weight"], MAGNITUDES)
    assert same(importance.mean_norm(someone, theta)["linear.weight"], [[2.2070064053081695] * 2] * 3)
    assert same(importance.tensor_squares(someone, theta, 3)["linear.weight"], [[0.544507258931073] * 2] * 3)
    linear, weight = owner(Softmax([[1.0, 0.0], [0.5, 1.0]], None), ((1.0, -2.0),), (0,))
    assert same(importance.mean_sensitivity(linear, weight)["linear.weight"], [[2.0, 4.0], [3.0, 6.0]])
