"""Lanes' convolutions as a GPU has them, as matrix products: where, and that the numbers are the same."""

from __future__ import annotations

import pytest
import torch
from lane_graphs import called, traced
from torch import fx, nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import functional as F

from fl_ddp.arithmetic.repeatable import repeatable
from fl_ddp.convolutions import choice, products
from fl_ddp.convolutions.choice import ChooseForms
from fl_ddp.convolutions.forms import Geometry
from fl_ddp.convolutions.writing import Found

aten = torch.ops.aten
LAYERS = {
    "plain": (nn.Conv2d(6, 9, 3), True),
    "padded": (nn.Conv2d(4, 8, (2, 3), padding=(1, 2), bias=False), True),
    "dilated": (nn.Conv2d(3, 8, (3, 2), padding="same", dilation=(2, 3)), True),
    "single pixels": (nn.Conv2d(5, 8, 1), True),
    "padded far": (nn.Conv2d(3, 8, 3, padding=3), False),
    "wide of low images": (nn.Conv2d(3, 8, (15, 1), padding=(4, 0)), False),
    "with strides": (nn.Conv2d(6, 8, 3, stride=(2, 3), padding=1), False),
}
"""And whether the gradient in images is a product, too."""


def left(module: fx.GraphModule) -> tuple[int, list[list[bool]]]:
    """How many convolutions a graph has, and for each way back whether it goes to images, and to filters."""
    forward = module.graph.find_nodes(op="call_function", target=aten.convolution.default)
    back = module.graph.find_nodes(op="call_function", target=aten.convolution_backward.default)
    return len(forward), [node.args[-1][:2] for node in back]


@pytest.mark.parametrize("parts", [1, 2, 6])
@pytest.mark.parametrize("name", LAYERS)
def test_the_numbers_are_those_of_convolutions(name: str, parts: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer, back = LAYERS[name]
    monkeypatch.setattr(choice, "_is_slow_on_a_cpu", lambda _: False)
    monkeypatch.setattr(products, "_on_cuda", lambda _: True)
    monkeypatch.setattr(products, "pieces", lambda _: parts)
    module, given = traced(layer, (layer.in_channels, 7, 9), batch=6)
    before = module(*given)
    ChooseForms()(module.graph)
    module.recompile()
    assert left(module) == (0, [] if back else [[True, False]])
    torch.testing.assert_close(module(*given), before, rtol=1e-11, atol=1e-11)


def lanes_on_cuda(dtype: torch.dtype, outs: int, side: int, *, forward_first: bool = True) -> fx.GraphModule:
    """A lanes' convolution, and its gradients, of a GPU that is not there."""
    with FakeTensorMode():
        x, w = (torch.empty(*shape, dtype=dtype, device="cuda") for shape in ((2, 12, side, side), (3 * outs, 4, 3, 3)))
        dy = torch.empty(2, 3 * outs, side - 2, side - 2, dtype=dtype, device="cuda")

        def gradients(x: torch.Tensor, w: torch.Tensor, dy: torch.Tensor) -> object:
            rest = (None, [1, 1], [0, 0], [1, 1], False, [0, 0], 3)
            y = F.conv2d(x, w, None, 1, 0, 1, 3) if forward_first else None
            found = aten.convolution_backward(dy, x, w, *rest, [True, True, False])
            return F.conv2d(x, w, None, 1, 0, 1, 3) if y is None else y, found[0], found[1]

        return make_fx(gradients)(x, w, dy)


def on_cuda(
    ours: ChooseForms, dtype: torch.dtype = torch.float32, outs: int = 8, side: int = 8
) -> tuple[int, list[list[bool]]]:
    """What the pass leaves of it."""
    module = lanes_on_cuda(dtype, outs, side)
    ours(module.graph)
    assert not called(module)
    return left(module)


BOTH = [[True, True]]


@pytest.mark.parametrize("tf32", [False, True])
def test_a_gpus_convolutions_are_products_where_these_are_faster(tf32: bool) -> None:
    with repeatable("cuda", tf32=tf32):
        assert on_cuda(ChooseForms()) == (0, [])
        assert on_cuda(ChooseForms(), outs=7) == (1, BOTH)
        assert on_cuda(ChooseForms(), torch.bfloat16) == (1, BOTH)
        assert on_cuda(ChooseForms(), outs=64, side=300) == (0, [])
        assert on_cuda(ChooseForms(), outs=64, side=400) == (1, BOTH)
        assert on_cuda(ChooseForms(products=False)) == (1, BOTH)


@pytest.mark.parametrize(
    ("outs", "channels", "batch", "ieee", "tf32"),
    [(32, 3, 10, 10, 5), (64, 32, 10, 2, 1), (64, 32, 7, 7, 1), (32, 3, 7, 7, 7), (32, 3, 2, 2, 2), (64, 128, 9, 1, 1)],
)
def test_a_batch_is_cut_where_a_lane_has_few_filters(
    outs: int, channels: int, batch: int, ieee: int, tf32: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = fx.Graph()
    images, filters = graph.placeholder("images"), graph.placeholder("filters")
    images.meta["val"], filters.meta["val"] = (
        torch.empty(batch, 2 * channels, 5, 5),
        torch.empty(2 * outs, channels, 3, 3),
    )
    layer = Found(images, filters, Geometry((1, 1), (0, 0), (1, 1)), 2)
    for precise, parts in ((True, ieee), (False, tf32)):
        monkeypatch.setattr(products, "in_ieee", lambda precise=precise: precise)
        assert products.pieces(layer) == parts


@pytest.mark.parametrize("first", [True, False])
def test_patches_of_outputs_are_those_of_filters_where_they_come_first(first: bool) -> None:
    with repeatable("cuda", tf32=True):
        module = lanes_on_cuda(torch.float32, 8, 8, forward_first=first)
        ChooseForms()(module.graph)
    unfolded = module.graph.find_nodes(op="call_function", target=aten.unfold.default)
    assert len(unfolded) == (2 if first else 4), "in two directions, once or twice"


def test_the_compilers_cache_tells_what_makes_other_graphs_apart() -> None:
    found = set()
    for tf32 in (False, True):
        with repeatable("cuda", tf32=tf32):
            found |= {ChooseForms(products).uuid() for products in (False, True)}
    assert len(found) == 4
