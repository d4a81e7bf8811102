"""FedNTD's distillation in closed form, and what it must not see."""

from __future__ import annotations

import math

import pytest
import torch
from quadratic import Rounds, approx, small_network, uneven_clients
from table import of_rows, reading, table
from torch import Tensor
from torch.func import grad_and_value
from torch.nn import functional as F

from fl_ddp.engine.plan import Plan
from fl_ddp.methods.fedntd import FedNTD


def distilled(own: list[float], received: list[float], tau: float, beta: float = 1.0) -> tuple[float, Tensor]:
    """What is added to the cross-entropy of one sample of class 0, and its gradient in the logits."""
    model, server = table([own]), {"theta": table([received]).init()}
    leaves = model.leaves(model.init())
    (g, value), (plain_g, plain) = (
        grad_and_value(FedNTD(model, beta=b, tau=tau).loss)(leaves, reading([0], 1), server, {}) for b in (beta, 0.0)
    )
    return (value - plain).item(), (of_rows(g, model) - of_rows(plain_g, model))[0]


@pytest.mark.parametrize(
    ("tau", "value", "slope"), [(1.0, 0.362990348909315, 5 / 12), (3.0, 0.396575876974483, 0.444144308368302)]
)
def test_value_and_gradient(tau: float, value: float, slope: float) -> None:
    """tau^2 KL((3/4, 1/4) || (1/3, 2/3)) at tau 1, with the gradient tau (q - p) in the not-true logits."""
    found, g = distilled([0.5, 0.0, math.log(2)], [-2.0, math.log(3), 0.0], tau)
    assert found == approx(value)
    assert g.tolist() == approx([0.0, -slope, slope])


def test_beta_scales_it() -> None:
    once, twice = (distilled([0.5, 0.0, 1.0], [0.0, 1.0, 0.0], 1.0, beta)[0] for beta in (1.0, 2.0))
    assert twice == approx(2 * once)


@pytest.mark.parametrize("shift", [0.0, 4.0])
@pytest.mark.parametrize("true", [-50.0, 0.0, 50.0])
def test_the_true_logit_and_a_common_shift_do_not_matter(true: float, shift: float) -> None:
    expected, slopes = distilled([0.0, 0.0, 1.0], [0.0, 1.0, 0.0], 2.0)
    found, g = distilled([true + shift, shift, 1.0 + shift], [-true, 1.0, 0.0], 2.0)
    # the cross-entropy that is taken off again is of order 50
    assert found == pytest.approx(expected, abs=1e-11)
    torch.testing.assert_close(g, slopes, rtol=0, atol=1e-11)


def test_nothing_is_distilled_where_the_models_are_equal() -> None:
    found, g = distilled([3.0, 1.0, -2.0], [3.0, 1.0, -2.0], 3.0)
    assert found == approx(0.0)
    assert g.tolist() == approx([0.0, 0.0, 0.0])


def test_a_padded_sample_adds_nothing() -> None:
    model, server = table([[1.0, 0.0, 2.0], [5.0, -3.0, 1.0]]), {"theta": table([[0.0, 1.0, 0.0]] * 2).init()}
    method, leaves = FedNTD(model), model.leaves(model.init())
    alone = method.loss(leaves, reading([2], 2), server, {})
    assert method.loss(leaves, reading([2, 0], 2, [1.0, 0.0]), server, {}).item() == approx(alone.item())


def not_true(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits [B, C - 1] of the classes that a sample is not of."""
    return torch.stack([torch.cat([row[:y], row[y + 1 :]]) for row, y in zip(logits, labels, strict=True)])


def test_clients_train_beside_the_received_model_which_stays() -> None:
    """Three full-batch steps of each client, as torch's own kl_div takes them on logits without the true class's."""
    model, clients, beta, tau, lr = small_network(), uneven_clients(), 2.0, 3.0, 0.5
    rounds = Rounds(FedNTD(model, beta=beta, tau=tau), clients, Plan(batch_size=11, epochs=None, steps=3, lr=lr))
    received = rounds.play()["theta"]
    rounds.play()
    for k, part in enumerate(clients.parts):
        x, y = clients.samples.x[part], clients.samples.y[part]
        kept = (not_true(model.logits(received, x), y) / tau).softmax(-1)
        theta = received
        for _ in range(3):
            theta = theta.detach().requires_grad_()
            logits = model.logits(theta, x)
            gap = F.kl_div((not_true(logits, y) / tau).log_softmax(-1), kept, reduction="batchmean")
            (g,) = torch.autograd.grad(F.cross_entropy(logits, y) + beta * tau**2 * gap, theta)
            theta = theta - lr * g
        torch.testing.assert_close(rounds.local[k], theta.detach(), rtol=0, atol=1e-5)
        assert (rounds.local[k] - received).abs().max() > 1e-2
