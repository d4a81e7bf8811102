"""What a module's outputs become, and what it may ask of layers that are put in the place of its own."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.func import grad

from fl_ddp.engine.seeds import torch_seed
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.layers import SeenLinear


def noise(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0))


def last(*before: nn.Module) -> nn.Module:
    return nn.Sequential(*before, nn.Linear(5, 5, bias=False))


class Shown(nn.Module):
    """Shows its features beside its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.last = last()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.last(x)


@pytest.mark.parametrize("make", [last, lambda: last(nn.Identity()), Shown])
def test_autocast_leaves_losses_of_sure_models_their_precision(make: Callable[[], nn.Module]) -> None:
    """Such a loss is the small difference of large numbers."""
    x, y = torch.eye(5), torch.arange(5)
    model = FlatModel(make(), 5, x[:1])
    theta = (9 * torch.eye(5) + 0.1 * noise(5, 5)).flatten()

    def loss(theta: Tensor) -> Tensor:
        return model.nll(theta, x, y).sum()

    with torch.autocast("cpu", torch.bfloat16):
        half, found = grad(loss)(theta), loss(theta)
        features, logits = model.apply(theta, x)
    full, expected = grad(loss)(theta), loss(theta)
    assert logits.dtype == torch.float32 and (features is None or features.dtype == torch.float32)
    assert expected < 0.01 and abs(found - expected) < 0.1 * expected
    assert (half - full).norm() < 0.1 * full.norm()


class Asking(nn.Module):
    """Looks at layers as torch has them."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.fc = nn.BatchNorm1d(5), nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        z = self.norm(x.reshape(-1, self.norm.num_features))
        out: Tensor = self.fc(z.to(self.fc.weight.dtype).reshape(-1, self.fc.in_features))
        return out + 0 * self.fc.weight.sum()


def test_a_module_may_ask_its_layers_for_what_they_have() -> None:
    with torch_seed(1):
        module, x = Asking(), noise(1, 5)
    expected = copy.deepcopy(module).eval()(x)
    model = FlatModel(module, 3, x)
    torch.testing.assert_close(model.logits(model.init(), x), expected)
    assert model.has_features and model.features(model.init(), x).shape == (1, 5)
    with pytest.raises(AttributeError, match="has no attribute 'wieght'"):
        _ = SeenLinear(nn.Linear(2, 2)).wieght


class Parted(nn.Module):
    """Has its logits by a submodule of two outputs, as FilVer calls it, beside what is no tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.pair = Shown()

    def forward(self, x: Tensor) -> tuple[None, Tensor]:
        return None, self.pair(x)[1]


def test_what_submodules_give_under_autocast_is_in_float32_and_features_may_be_none() -> None:
    model = FlatModel(Parted(), 5, torch.eye(5)[:1])
    with torch.autocast("cpu", torch.bfloat16):
        assert [each.dtype for each in model.call("pair", model.init(), torch.eye(5))] == [torch.float32] * 2
        assert model.apply(model.init(), torch.eye(5))[0] is None
