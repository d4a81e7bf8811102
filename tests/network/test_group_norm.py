"""GroupNorm in the place of BatchNorm: how many groups, and whose weights."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from fl_ddp.errors import ConfigError
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.group_norm import with_group_norm


@pytest.mark.parametrize(
    ("layer", "groups"),
    [
        (nn.BatchNorm2d(64), 32), (nn.BatchNorm2d(48), 24), (nn.BatchNorm2d(37), 1), (nn.BatchNorm2d(6), 6),
        (nn.BatchNorm3d(62), 31), (nn.BatchNorm1d(64), 1), (nn.SyncBatchNorm(64), 32),
    ],
)  # fmt: skip
def test_the_largest_number_of_groups_that_divides_the_channels(layer: nn.Module, groups: int) -> None:
    found = with_group_norm(nn.Sequential(layer))[0]  # type: ignore[index]
    assert isinstance(found, nn.GroupNorm) and found.num_groups == groups


def test_weights_biases_and_eps_are_the_layers() -> None:
    layer, plain = nn.BatchNorm2d(4, eps=1e-2), nn.BatchNorm2d(4, affine=False)
    nn.init.uniform_(layer.weight)
    module = nn.ModuleDict({"a": layer, "b": nn.ModuleList([layer, plain])})
    assert with_group_norm(module) is module
    found = module["a"]
    assert isinstance(found, nn.GroupNorm) and found.weight is layer.weight and found.bias is layer.bias
    assert found.eps == 1e-2
    assert module["b"][0] is found, "one layer in two places stays one"  # type: ignore[index]
    assert module["b"][1].weight is None  # type: ignore[index]


def test_a_layer_alone() -> None:
    assert isinstance(with_group_norm(nn.BatchNorm1d(3)), nn.GroupNorm)


@pytest.mark.parametrize("layer", [nn.LazyBatchNorm1d(), nn.LazyBatchNorm2d(affine=False), nn.LazyLinear(3)])
@pytest.mark.parametrize("use", [with_group_norm, lambda net: FlatModel(net, 4, torch.zeros(1, 6))])
def test_a_layer_that_does_not_know_its_sizes_is_refused(use: Callable[[nn.Module], object], layer: nn.Module) -> None:
    net = nn.Sequential(nn.Linear(6, 4), layer)
    kind = type(layer).__name__
    with pytest.raises(ConfigError) as error:
        use(net)
    assert str(error.value) == (
        f"--model: Sequential has {kind} at '1', which does not know its sizes; "
        "accepted: layers that are given them, such as torch.nn.BatchNorm2d(64)"
    )


def test_others_stay() -> None:
    module = nn.Sequential(nn.LayerNorm(3), nn.InstanceNorm1d(3), nn.Linear(3, 3))
    before = list(module)
    with_group_norm(module)
    assert list(module) == before


def test_vectors_of_features_keep_their_information() -> None:
    """As many groups as features would make zeros of all of them."""
    layer = with_group_norm(nn.BatchNorm1d(8))
    out = layer(torch.arange(16.0).view(2, 8))
    assert out.std() > 0.9
