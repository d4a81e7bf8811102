"""A forward that looks at more than its sample, or keeps something, is refused before a run; no other is."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from fl_ddp.errors import ConfigError
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.row_check import looks, refuse_other_rows
from fl_ddp.protocol import Batch

X = torch.linspace(-1, 1, 12).view(2, 6).exp()


class Net(nn.Module):
    """A function of two layers' logits, the inputs and the module."""

    def __init__(self, of: Callable[[Net, Tensor], Tensor]) -> None:
        super().__init__()
        self.first, self.last, self.of = nn.Linear(6, 8), nn.Linear(8, 3), of
        self.norm, self.drop = nn.BatchNorm1d(8), nn.Dropout(0.5)
        self.calls, self.random = 0, np.random.default_rng(0)

    def logits(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.drop(self.norm(self.first(x)))))  # type: ignore[no-any-return]

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.of(self, x)


def asked(of: Callable[[Net, Tensor], Tensor]) -> None:
    model = FlatModel(Net(of), 3, X[:1])
    refuse_other_rows(looks(model, X, "Net"), 3, "Net")


@pytest.mark.parametrize(
    "of",
    [
        lambda net, x: net.logits(x),
        lambda net, x: net.logits(x - x.mean(1, keepdim=True)),
        lambda net, x: 1e4 * F.log_softmax(net.logits(x), dim=1),
        lambda net, x: torch.cat([net.logits(row) for row in x.split(1)]) if not net.training else net.logits(x),
        lambda net, x: 0 * net.logits(x),
    ],
)
def test_a_forward_of_each_sample_by_itself_is_accepted(of: Callable[[Net, Tensor], Tensor]) -> None:
    asked(of)


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (lambda net, x: net.logits(x - x.mean(0)), "its batch takes part"),
        (lambda net, x: F.log_softmax(net.logits(x), dim=0), "its batch takes part"),
        (lambda net, x: net.logits(x) / len(x), "its batch takes part"),
        (lambda net, x: net.logits(F.layer_norm(x, x.shape)), "its batch takes part"),
        (lambda net, x: net.logits(x[:1].expand_as(x)), "its batch takes part"),
        (lambda net, x: net.logits(x) * net.calls, "when it is called again in training mode"),
        (lambda net, x: net.logits(x) * (net.calls if not net.training else 1), "again in evaluation mode"),
        (lambda net, x: net.logits(x) + float(net.random.normal()), "when it is called again in training mode"),
        (lambda net, x: net.logits(x)[:, :2] if net.training else net.logits(x), "float32 [2, 2] for two samples in t"),
        (lambda net, x: net.logits(x)[: 1 if len(x) > 1 else None], "gives float32 [1, 3] for two samples in training"),
        (lambda net, x: net.logits(x.view(1, 6)), "fails on two samples of [6]: "),
        (lambda net, x: net.logits(x) * float("nan"), "gives nan in training mode, with its initial parameters"),
    ],
)
def test_another_one_is_refused(of: Callable[[Net, Tensor], Tensor], words: str) -> None:
    with pytest.raises(ConfigError, match="^--model: Net's forward .*" + re.escape(words)):
        asked(of)


def test_running_statistics_are_of_no_look() -> None:
    model, batch = FlatModel(Net(Net.logits), 3, X[:1]), Batch(X, torch.tensor([0, 1]), torch.ones(2), torch.tensor(1))
    theta = model.init()
    expected = model.batch_statistics(theta, batch)
    looks(model, 3 * X, "Net")
    assert torch.equal(model.batch_statistics(theta, batch), expected)
