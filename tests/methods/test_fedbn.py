"""FedBN: whose BatchNorm ends where, and what travels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from given import round_of_one_task
from quadratic import Rounds, small_network, uneven_clients
from torch import Tensor, nn

from fl_ddp.engine.plan import Plan
from fl_ddp.engine.seeds import torch_seed
from fl_ddp.errors import ConfigError
from fl_ddp.methods.fedbn import FedBN
from fl_ddp.network.flat_model import FlatModel

PLAN = Plan(3, 2.0, None, 0.1)


def model() -> FlatModel:
    with torch_seed(0):
        layers = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.BatchNorm1d(8, affine=False), nn.Linear(8, 3)
    return FlatModel(nn.Sequential(*layers), 3, torch.zeros(1, 4))


def test_the_layers_of_a_model() -> None:
    network = model()
    assert [network.names[i] for i in network.norms] == [
        "1.weight", "1.bias", "1.running_mean", "1.running_var", "3.running_mean", "3.running_var"
    ]  # fmt: skip
    assert [network.names[i] for i in network.others(network.norms)] == ["0.weight", "0.bias", "4.weight", "4.bias"]


def test_each_client_keeps_its_layers_and_the_others_are_the_mean_s() -> None:
    network = model()
    norms, others = network.norms, network.others(network.norms)
    rounds = Rounds(FedBN(network), uneven_clients(), PLAN)
    rounds.play([0, 1, 2])
    own = {k: network.take(theta, norms) for k, theta in rounds.local.items()}
    assert all(torch.equal(rounds.remembered("norms")[k], own[k]) for k in own)
    assert torch.equal(rounds.remembered("norms")[4], network.take(network.init(), norms))
    n = torch.tensor([len(rounds.clients.parts[k]) for k in range(3)], dtype=torch.float64)
    mean: Tensor = sum(n[k] * network.take(rounds.local[k], others).double() for k in range(3)) / n.sum()
    received = rounds.server["theta"]
    torch.testing.assert_close(network.take(received, others).double(), mean, rtol=0, atol=1e-6)
    rounds.plan = Plan(3, 1.0, None, 1e-30)
    rounds.play([1, 3])
    weights = norms[:2]
    assert torch.equal(network.take(rounds.local[1], others), network.take(received, others))
    assert torch.equal(network.take(rounds.local[1], weights), own[1][:16]), "next time it begins with its own"
    assert torch.equal(network.take(rounds.local[3], weights), network.take(network.init(), weights))


def test_what_travels() -> None:
    """40 + 27 of 115 coordinates."""
    method = FedBN(model())
    rounds = Rounds(method, uneven_clients(), PLAN)
    upload = method.client_update(next(rounds.groups(np.arange(2))), method.init(), rounds.memory.take(np.arange(2)))
    sent = {name: t.shape[1:].numel() for name, t in upload.on_the_wire.items() if isinstance(t, Tensor)}
    assert sent == {"weight": 1, "shared": 67}
    assert method.sent_bytes(method.init(), round_of_one_task(0)) == 67 * 4
    assert method.model.num_params == 115


def test_a_model_without_batch_norm_is_refused() -> None:
    with pytest.raises(ConfigError, match="--model: Sequential has no BatchNorm, and FedBN leaves it with the clients"):
        FedBN(small_network())
