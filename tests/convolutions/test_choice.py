"""The pass that chooses the form of lanes' convolutions: where it does, and that the numbers are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, fx, nn
from torch._subclasses import FakeTensorMode
from torch.func import functional_call, grad, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from fl_ddp.convolutions.choice import ChooseForms
from fl_ddp.convolutions.forms import Form, Geometry, form
from fl_ddp.models.cnn import FedCurvCNN, FedKACNN, ImportanceCNN
from fl_ddp.models.resnet import ResNet18

G, B = 3, 2
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


def gradients(layer: nn.Module) -> Callable[[dict[str, Tensor], Tensor], tuple[dict[str, Tensor], Tensor]]:
    """Lanes' gradients in a layer's parameters and its inputs."""

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        out: Tensor = functional_call(layer, parameters, (x,))
        return out.sin().sum()

    return vmap(grad(loss, argnums=(0, 1)))


def traced(layer: nn.Module, shape: tuple[int, ...]) -> tuple[fx.GraphModule, tuple[dict[str, Tensor], Tensor]]:
    """The graph of a layer's gradients, and what to give it."""
    own = {name: torch.randn(G, *p.shape, dtype=torch.float64) for name, p in layer.named_parameters()}
    x = torch.randn(G, B, *shape, dtype=torch.float64)
    return make_fx(gradients(layer), tracing_mode="fake")(own, x), (own, x)


def called(module: fx.GraphModule) -> Counter[str]:
    """How often a graph calls our operators."""
    names = (str(node.target) for node in module.graph.nodes if node.op == "call_function")
    return Counter(name.split(".")[1] for name in names if name.startswith("fl_ddp."))


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


def on_cuda(dtype: torch.dtype, *, in_triton: bool) -> Counter[str]:
    """What the pass makes of a lanes' convolution of a GPU that is not there."""
    with FakeTensorMode():
        x, w = (torch.empty(*shape, dtype=dtype, device="cuda") for shape in ((B, G, 8, 8), (G, 1, 3, 3)))
        module = make_fx(lambda x, w: F.conv2d(x, w, None, 1, 1, 1, G))(x, w)
    ChooseForms(in_triton=in_triton)(module.graph)
    return called(module)


@pytest.mark.cuda_code
def test_a_gpus_convolutions_are_cudnns_unless_lanes_are_asked_for() -> None:
    pytest.importorskip("triton", reason="this installation of torch is without Triton")
    assert on_cuda(torch.float32, in_triton=False) == {}
    assert on_cuda(torch.float32, in_triton=True) == {"convolve": 1}
    assert on_cuda(torch.bfloat16, in_triton=True) == {}
    names = [f"fl_ddp::{name}" for name in OURS]
    assert all(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CUDA") for name in names)
    assert ChooseForms().uuid() != ChooseForms(in_triton=True).uuid()


def test_the_compilers_cache_tells_graphs_of_the_same_rule_alike() -> None:
    assert ChooseForms().uuid() == ChooseForms().uuid()
