"""Importance of softmax regressions, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from importance_bench import Bench, check_close
from torch import Tensor, nn

from fl_ddp.engine.samples import Samples
from fl_ddp.engine.workplace import Workplace
from fl_ddp.importance.fisher import fisher, importance_sum, mean_gradient_norm
from fl_ddp.importance.sensitivity import Sensitivity
from fl_ddp.losses.mse import MSE
from fl_ddp.network.flat_model import FlatModel


def linear(weight: list[list[float]], bias: list[float] | None, x: list[list[float]], y: list[int]) -> Bench:
    """Softmax regression on one client."""
    w = torch.tensor(weight, dtype=torch.float64)
    layer = nn.Linear(w.shape[1], w.shape[0], bias is not None).double()
    layer.weight.data = w
    if bias is not None:
        layer.bias.data = torch.tensor(bias, dtype=torch.float64)
    data = Samples(torch.tensor(x, dtype=torch.float64), torch.tensor(y))
    model = FlatModel(layer, len(w), data.x[:1])
    return Bench(Workplace(data, torch.float64, False, False, lambda: None, len(y)), [np.arange(len(y))], model)


def weights(b: Bench, of: Tensor) -> Tensor:
    return b.model.leaves(of)[0]


def test_softmax_regression_with_zero_weights_is_known() -> None:
    """Per sample p - onehot = (-1/2, 1/2) or its negative, so F_W = mean x^2 / 4, F_b = 1/4."""
    b = linear([[0, 0], [0, 0]], [0, 0], [[1, 2], [3, -1]], [0, 1])
    theta, group = b.model.init(), b.group([0])
    for kind in ("empirical", "exact"):
        found = fisher(group, theta, b.model, kind="exact" if kind == "exact" else "empirical")[0]
        check_close(found, torch.tensor([1.25, 0.625, 1.25, 0.625, 0.25, 0.25], dtype=torch.float64))
    mean = fisher(group, theta, b.model, reduction="batch_mean_sq", batch_size=2)[0]
    check_close(weights(b, mean), torch.tensor([[0.25, 0.5625]] * 2, dtype=torch.float64))
    of_both = fisher(group, theta, b.model, reduction="sum")[0]
    check_close(weights(b, of_both), torch.tensor([[2.5, 1.25]] * 2, dtype=torch.float64))


def test_least_squares_has_the_fisher_of_its_own_gradients() -> None:
    """Of the loss mean_c (f_c - y_c)^2 of two outputs the gradient is (f - y) x, so F_W = mean x^2 (f - y)^2."""
    x, y = torch.tensor([[1.0, 2], [3, -1]]).double(), torch.tensor([[1.0, 0.5], [-2, 0]]).double()
    layer = nn.Linear(2, 2, bias=False).double()
    model = FlatModel(layer, 2, x[:1], MSE())
    b = Bench(Workplace(Samples(x, y), torch.float64, False, False, lambda: None, 2), [np.arange(2)], model)
    gap = x @ layer.weight.detach().T - y
    expected = (gap.square()[:, :, None] * x.square()[:, None]).mean(0)
    check_close(weights(b, fisher(b.group([0]), model.init(), model)[0]), expected)
    mean = (gap[:, :, None] * x[:, None]).mean(0).square()
    found = fisher(b.group([0]), model.init(), model, reduction="batch_mean_sq", batch_size=2)[0]
    check_close(weights(b, found), mean)
    norms = (gap[:, :, None] * x[:, None]).flatten(1).norm(dim=1).mean()
    check_close(mean_gradient_norm(b.group([0]), model.init(), model)[0], norms)


@pytest.fixture(scope="module")
def three() -> Bench:
    """Three samples of three classes, one of each."""
    return linear([[0.1, -0.2], [0, 0.3], [-0.1, 0.05]], [0, 0.1, -0.1], [[1, 2], [3, -1], [-0.5, 0.5]], [0, 2, 1])


def test_softmax_regression_has_the_specified_fisher(three: Bench) -> None:
    """Numbers evaluated by F_W = mean x^2 (p - onehot)^2 and mean x^2 p (1 - p)."""
    theta, group = three.model.init(), three.group([0])
    empirical = [
        [1.064179342578823, 0.948451575834711],
        [0.338371271386407, 0.455797324788025],
        [1.922928647117714, 0.300151379449228],
    ]
    found = fisher(group, theta, three.model)[0]
    torch.testing.assert_close(weights(three, found), torch.tensor(empirical, dtype=torch.float64), atol=1e-14, rtol=0)
    bias = torch.tensor([0.331378184993253, 0.239544190679737, 0.263441142542524], dtype=torch.float64)
    torch.testing.assert_close(three.model.leaves(found)[1], bias, atol=1e-14, rtol=0)
    exact = [
        [0.817588254682623, 0.314939475051139],
        [0.685122306217916, 0.414858618575111],
        [0.569492098959714, 0.320465955750676],
    ]
    found = fisher(group, theta, three.model, kind="exact")[0]
    torch.testing.assert_close(weights(three, found), torch.tensor(exact, dtype=torch.float64), atol=1e-14, rtol=0)


def test_fedcls_readings_of_omega_are_the_specified(three: Bench) -> None:
    theta, group = three.model.init(), three.group([0])
    absolute = [
        [0.842805420117492, 0.754674443899108],
        [0.545182649260186, 0.552831125294087],
        [0.929170288554573, 0.481824711616510],
    ]
    total, count = importance_sum(group, theta, three.model, Sensitivity(power="absolute"))
    found = weights(three, total[0] / count)
    torch.testing.assert_close(found, torch.tensor(absolute, dtype=torch.float64), atol=1e-14, rtol=0)
    assert float(weights(three, fisher(group, theta, three.model)[0]).sum()) == pytest.approx(5.029879541154909)
    # the code's: one batch of three, squared, summed over a tensor, divided by the number of samples
    total, _ = importance_sum(group, theta, three.model, Sensitivity(batch_mean=True), batch_size=3)
    assert float(weights(three, total[0]).sum()) / 3 == pytest.approx(0.544507258931073)
    assert float(mean_gradient_norm(group, theta, three.model)[0]) == pytest.approx(2.2070064053081695)


def test_mas_is_the_gradient_of_the_squared_logits() -> None:
    """d |W x|^2 / d W = 2 (W x) x^T."""
    b = linear([[1, 0], [0.5, 1]], None, [[1, -2]], [0])
    total, count = importance_sum(b.group([0]), b.model.init(), b.model, Sensitivity(of="norm", power="absolute"))
    assert count.tolist() == [1]
    assert torch.equal(weights(b, total[0]), torch.tensor([[2.0, 4.0], [3.0, 6.0]], dtype=torch.float64))
