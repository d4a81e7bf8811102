"""A model's modules, into which parameters are put for a pass: no thread's pass sees another's."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn
from torch.func import functional_call

from fl_ddp.network.flat_model import FlatModel


def test_other_threads_have_modules_of_their_own_while_one_compiles() -> None:
    """From torch 2.12 on, is_compiling() is True in all threads then."""
    module = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    x = torch.linspace(-1, 1, 20).view(5, 4)
    model = FlatModel(module, 3, x[:1])
    theta, shared = model.init(), model._modules

    def look() -> tuple[bool, Tensor]:
        return model._current is not shared, model.logits(2 * theta, x)

    def backend(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., object]:
        with ThreadPoolExecutor(1) as pool:
            found.append(pool.submit(look).result())
        return graph.forward

    found: list[tuple[bool, Tensor]] = []
    step = torch.compile(lambda theta: model.logits(theta, x) * 1, backend=backend, fullgraph=True)
    assert torch.equal(step(theta), model.logits(theta, x))
    ((own, logits),) = found
    assert own
    expected = functional_call(module, {k: 2 * v for k, v in module.named_parameters()}, (x,))
    assert torch.equal(logits, expected)
