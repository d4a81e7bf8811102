"""FedRoD's balanced softmax in closed form, and what the personal head may touch."""

from __future__ import annotations

import math

import pytest
import torch
from quadratic import Rounds, approx, small_network, uneven_clients
from table import reading, table
from torch.func import grad

from fl_ddp.engine.plan import Plan
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.methods.fedrod import FedRoD
from fl_ddp.protocol import Tensors


@pytest.mark.parametrize(("gamma", "generic"), [(1.0, math.log(4)), (0.0, math.log(2)), (2.0, math.log(10))])
def test_balanced_softmax(gamma: float, generic: float) -> None:
    """Zero logits, counts (3, 1), label 1: -log(1 / (1 + 3^gamma)); the personal head is zero, too: log 2."""
    model = table([[0.0, 0.0]])
    method = FedRoD(model, gamma=gamma)
    start = method.leaves(torch.cat([model.init(), method.init_client()["phi"]]))
    server: Tensors = {}
    given = (reading([1], 1), server, {"log_counts": torch.tensor([3.0, 1.0], dtype=torch.float64).log()})
    assert method.loss(start, *given).item() == approx(generic + math.log(2))
    g = grad(method.loss)(start, *given)
    share = 3**gamma / (1 + 3**gamma)
    assert g[0][:, 0].tolist() == approx([share, -share])
    assert g[-1].tolist() == approx([0.5, -0.5])


@pytest.mark.parametrize("gamma", [0.0, 1.0, 2.5])
def test_of_classes_alike_in_number_the_generic_loss_is_cross_entropy(gamma: float) -> None:
    model = table([[1.0, -2.0]])
    method = FedRoD(model, gamma=gamma)
    start = method.leaves(torch.cat([model.init(), method.init_client()["phi"]]))
    server: Tensors = {}
    given = (reading([1], 1), server, {"log_counts": torch.tensor([5.0, 5.0], dtype=torch.float64).log()})
    # the personal head is zero, and adds to the generic logits, whose gradient it does not see
    assert method.loss(start, *given).item() == approx(2 * math.log(1 + math.exp(3)))


def test_the_personal_loss_reaches_neither_body_nor_generic_head() -> None:
    model = table([[1.0, -2.0]])
    method = FedRoD(model)
    phi = torch.tensor([0.3, -0.1, 0.4, 0.2, 0.5, -0.6], dtype=torch.float64)
    counts = {"log_counts": torch.zeros(2, dtype=torch.float64)}
    with_phi, without = (
        grad(method.loss)(method.leaves(torch.cat([model.init(), own])), reading([1], 1), {}, counts)
        for own in (phi, 0 * phi)
    )
    for ours, theirs in zip(with_phi[:-2], without[:-2], strict=True):
        assert torch.equal(ours, theirs)


def test_a_class_that_a_client_lacks_is_out_of_its_softmax() -> None:
    rounds = Rounds(FedRoD(small_network()), uneven_clients(), Plan(3, 2.0, None, 0.1))
    for _ in range(2):
        assert rounds.play()["theta"].isfinite().all()
    assert rounds.remembered("phi").abs().min(0).values.max() > 0


@pytest.mark.parametrize("gamma", [1e-3, 1.0])
def test_a_class_that_a_client_lacks_is_not_trained(gamma: float) -> None:
    """Its share of the balanced softmax is 0^gamma = 0, and so is its gradient."""
    model, clients = small_network(), uneven_clients()
    rounds = Rounds(FedRoD(model, gamma=gamma), clients, Plan(3, 2.0, None, 0.1))
    rounds.play()
    bias = model.num_params - model.num_classes
    missing = [(k, c) for k, part in enumerate(clients.parts) for c in range(3) if c not in clients.samples.y[part]]
    assert missing
    for k, label in missing:
        assert rounds.local[k][bias + label] == model.init()[bias + label]


def test_own_predictions_are_generic_logits_and_the_personal_head_s() -> None:
    model = table([[1.0, -2.0], [0.5, 0.5]])
    method = FedRoD(model)
    weight, bias = torch.tensor([[0.3, -0.1], [0.4, 0.2]], dtype=torch.float64), torch.tensor([0.5, -0.6]).double()
    theta = torch.cat([model.init(), weight.flatten(), bias])
    z = torch.tensor([[1.0, -2.0], [0.5, 0.5]], dtype=torch.float64)
    torch.testing.assert_close(method.predict(theta, torch.eye(2, dtype=torch.float64)), z + z @ weight.mT + bias)


def test_a_clipped_personal_head_leaves_the_generic_model_alone() -> None:
    """Each is clipped by its own norm, so that gamma 0 stays FedAvg; a step of 1 is as long as both may be."""
    clipped, model = Plan(9, None, 1, 1.0, clip_norm=1e-3), small_network()
    rounds, fedavg = (Rounds(m, uneven_clients(), clipped) for m in (FedRoD(model, gamma=0.0), FedAvg(model)))
    assert rounds.play()["theta"].equal(fedavg.play()["theta"])
    torch.testing.assert_close(rounds.remembered("phi").norm(dim=1), torch.full((5,), 1e-3), rtol=1e-3, atol=0)
