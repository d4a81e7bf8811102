"""The pass that chooses the form of lanes' convolutions: where it does, and that the numbers are the same."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from lane_graphs import called, traced
from torch import Tensor, nn

from fl_ddp.convolutions.choice import ChooseForms
from fl_ddp.convolutions.forms import Form, Geometry, form
from fl_ddp.models.cnn import FedCurvCNN, FedKACNN, ImportanceCNN
from fl_ddp.models.resnet import ResNet18

aten, ours = torch.ops.aten, torch.ops.fl_ddp
OURS = ["convolve", "convolve_input", "convolve_weight"]
LAYERS = {
    "one channel": (nn.Conv2d(1, 5, 3), (1, 8, 8), []),
    "few channels": (nn.Conv2d(3, 5, 3, padding=1), (3, 6, 5), OURS),
    "many filters": (nn.Conv2d(5, 64, (2, 3), stride=2, padding=(0, 1), bias=False), (5, 6, 8), OURS),
    "one number for both sides": (nn.Conv2d(3, 4, 3, padding="same", dilation=2), (3, 7, 7), OURS),
    "in between": (nn.Conv2d(6, 4, 3), (6, 8, 8), []),
    "sequences": (nn.Conv1d(3, 4, 3), (3, 8), []),
    "upward": (nn.ConvTranspose2d(3, 4, 2), (3, 5, 5), []),
}  # fmt: skip


@pytest.mark.parametrize("name", LAYERS)
def test_the_numbers_stay_and_the_form_changes_where_it_is_slow(name: str) -> None:
    layer, shape, expected = LAYERS[name]
    module, given = traced(layer, shape)
    before = module(*given)
    ChooseForms()(module.graph)
    module.recompile()
    assert called(module) == dict.fromkeys(expected, 1)
    assert not expected or not any(node.target is aten.convolution.default for node in module.graph.nodes)
    torch.testing.assert_close(module(*given), before, rtol=1e-11, atol=1e-11)


def forms(model: nn.Module, shape: tuple[int, ...], batch: int) -> list[Form]:
    """Of a model's convolutions in the order of their use."""
    found: list[Form] = []

    def look(layer: nn.Module, given: tuple[Tensor], _: Tensor) -> None:
        assert isinstance(layer, nn.Conv2d) and not isinstance(layer.padding, str)
        x = given[0].new_empty(1, batch, *given[0].shape[1:])
        geometry = Geometry(*((each[0], each[1]) for each in (layer.stride, layer.padding, layer.dilation)))
        found.append(form(x, layer.weight[None], geometry))

    for layer in model.modules():
        if isinstance(layer, nn.Conv2d):
            layer.register_forward_hook(look)
    with torch.no_grad():
        model(torch.zeros(1, *shape))
    return found


def test_small_models_keep_their_form_and_large_ones_take_another() -> None:
    digits = {"in_shape": (1, 28, 28), "num_classes": 10}
    assert forms(FedCurvCNN(**digits), (1, 28, 28), 10) == ["grouped", "grouped"]  # type: ignore[arg-type]
    assert forms(FedKACNN(**digits), (1, 28, 28), 10) == ["grouped", "grouped"]  # type: ignore[arg-type]
    assert forms(ImportanceCNN(**digits), (1, 28, 28), 10) == ["grouped", "onednn"]  # type: ignore[arg-type]
    resnet = forms(ResNet18(in_shape=(3, 32, 32), num_classes=10), (3, 32, 32), 4)
    assert Counter(resnet) == {"onednn": 13, "product": 7}


def test_the_compilers_cache_tells_graphs_of_the_same_rule_alike() -> None:
    assert ChooseForms().uuid() == ChooseForms().uuid()
