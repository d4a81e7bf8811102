"""MOON's contrast in closed form, and which model a client's previous one is."""

from __future__ import annotations

import math

import pytest
import torch
from quadratic import TWO_EPOCHS, Rounds, approx, small_network, uneven_clients
from table import of_rows, reading, table
from torch import Tensor, nn
from torch.func import grad

from fl_ddp.errors import ConfigError
from fl_ddp.methods.moon import MOON
from fl_ddp.network.flat_model import FlatModel

Vector = tuple[float, float]


def turned(degrees: float) -> Vector:
    """A feature vector at an angle."""
    return math.cos(math.radians(degrees)), math.sin(math.radians(degrees))


def contrast(model: FlatModel, received: Vector, previous: Vector, mu: float = 1.0, tau: float = 0.5) -> float:
    """What is added to the cross-entropy."""
    given = (model.leaves(model.init()), reading([0], 1), {"theta": table([received]).init()})
    mine = {"previous": table([previous]).init()}
    return float(MOON(model, mu=mu, tau=tau).loss(*given, mine) - MOON(model, mu=0.0).loss(*given, mine))


@pytest.mark.parametrize(
    ("angle", "value"), [(0.0, math.log(2)), (90.0, 0.126928011042973), (180.0, 0.018149927917810)]
)
def test_value(angle: float, value: float) -> None:
    """z is z_glob: the cosines are 1 and cos(angle), so l_con = log(1 + exp((cos(angle) - 1) / tau))."""
    model = table([turned(0.0)])
    assert contrast(model, (1.0, 0.0), turned(angle)) == approx(value)
    assert contrast(model, (7.0, 0.0), turned(angle)) == approx(value), "lengths do not matter"
    assert contrast(model, (1.0, 0.0), turned(angle), mu=3.0) == approx(3 * value)
    assert contrast(model, (1.0, 0.0), turned(angle), tau=2.0) == approx(
        math.log(1 + math.exp((math.cos(math.radians(angle)) - 1) / 2))
    )


def test_the_previous_model_pushes_and_the_received_one_pulls() -> None:
    model = table([turned(0.0)])
    assert contrast(model, turned(90.0), turned(0.0)) > math.log(2) > contrast(model, turned(0.0), turned(90.0))


def slope(rows: list[Vector], received: list[Vector], previous: list[Vector]) -> Tensor:
    """Gradient in the features of what is added."""
    model = table(rows)
    of = [
        grad(MOON(model, mu=mu).loss)(
            model.leaves(model.init()),
            reading([0] * len(rows), len(rows)),
            {"theta": table(received).init()},
            {"previous": table(previous).init()},
        )
        for mu in (1.0, 0.0)
    ]
    return of_rows(of[0], model) - of_rows(of[1], model)


def test_gradient() -> None:
    """At z = e1 with z_glob = e1 and z_prev = e2: sigma(-1 / tau) / tau times d cos(z, e2) / dz = (0, 1)."""
    sigma = 1 / (1 + math.exp(2.0))
    assert slope([(1.0, 0.0)], [(1.0, 0.0)], [(0.0, 1.0)])[0].tolist() == approx([0.0, 2 * sigma])


def test_a_client_that_never_trained_is_not_pulled() -> None:
    assert slope([(1.0, 2.0)], [(0.5, -1.0)], [(0.5, -1.0)]).abs().max().item() == approx(0.0)


def test_features_that_are_all_zero_have_a_gradient() -> None:
    assert slope([(0.0, 0.0)], [(0.0, 0.0)], [(0.0, 0.0)]).isfinite().all()


def test_a_model_without_features_is_refused() -> None:
    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(2, 2)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.linear(x) * 2
            return out

    with pytest.raises(ConfigError, match=r"--model: Doubled shows no features, which MOON looks at; accepted: "):
        MOON(FlatModel(Doubled(), 2, torch.zeros(1, 2)))


def test_a_client_s_previous_model_is_the_one_its_last_training_ended_at() -> None:
    """In its first round it has the received model for both, whose pull and push cancel: FedAvg's, to rounding."""
    ours = Rounds(MOON(small_network()), uneven_clients(), TWO_EPOCHS)
    plain = Rounds(MOON(small_network(), mu=0.0), uneven_clients(), TWO_EPOCHS)
    for rounds in (ours, plain):
        rounds.play([0, 1, 4])
    for k in (0, 1, 4):
        torch.testing.assert_close(ours.local[k], plain.local[k])
        assert torch.equal(ours.remembered("previous")[k], ours.local[k])
    assert ours.remembered("trained").tolist() == [1, 1, 0, 0, 1]
    first = dict(ours.local)
    ours.server = plain.server
    for rounds in (ours, plain):
        rounds.play([1, 2])
    torch.testing.assert_close(ours.local[2], plain.local[2])
    assert (ours.local[1] - plain.local[1]).abs().max() > 1e-4, "its previous model pushes"
    assert torch.equal(ours.remembered("previous")[4], first[4])
