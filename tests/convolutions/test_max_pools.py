"""Max pooling that is quick on a CPU has the numbers of torch's, and is what a model's evaluation meets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn, vmap
from torch.func import grad
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from fl_ddp.convolutions.max_pools import quick_pools
from fl_ddp.models.layers import MaxPool
from fl_ddp.network.flat_model import FlatModel

SLOW = torch.ops.aten.max_pool2d_with_indices.default
SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0])


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


class Calls(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Which operators are called."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.found = list[object]()

    def __torch_dispatch__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        self.found.append(func)
        return func(*args, **(kwargs or {}))


def pooled(pool: Callable[[Tensor], Any], x: Tensor) -> tuple[Any, bool]:
    """What becomes of x in a block of quick pools, and whether torch's own operator was called."""
    with torch.no_grad(), Calls() as calls, quick_pools(x):
        return pool(x), SLOW in calls.found


@settings(max_examples=200, deadline=None)
@given(
    sides=st.tuples(st.integers(1, 11), st.integers(1, 11)),
    kernel=st.tuples(st.integers(2, 4), st.integers(2, 4)),
    stride=st.none() | st.tuples(st.integers(1, 4), st.integers(1, 4)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    dilation=st.integers(1, 3),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    special=st.booleans(),
    seed=st.integers(0, 999),
)
def test_numbers_are_torchs(
    sides: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int] | None,
    padding: tuple[int, int],
    dilation: int,
    dtype: torch.dtype,
    special: bool,
    seed: int,
) -> None:
    x = noise(2, 3, *sides, seed=seed).mul(3).round().to(dtype)  # with ties
    if special:
        x = SPECIAL.to(dtype)[x.abs().long() % len(SPECIAL)]

    def pool(x: Tensor) -> Tensor:
        return F.max_pool2d(x, kernel, stride, padding, dilation)

    try:
        expected = pool(x)
    except RuntimeError as refusal:
        with pytest.raises(RuntimeError) as ours:
            pooled(pool, x)
        assert str(ours.value) == str(refusal)
        return
    found, slow = pooled(pool, x)
    assert not slow
    torch.testing.assert_close(found, expected, rtol=0, atol=0, equal_nan=True)
    assert found.is_contiguous()


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 2, return_indices=True),
        lambda x: F.max_pool2d(x, 2, ceil_mode=True),
        lambda x: F.max_pool2d(x, (1, 2)),
        lambda x: F.max_pool2d(x[0], 2),
        lambda x: F.max_pool2d(x.to(memory_format=torch.channels_last), 2),
    ],
)
def test_what_is_rare_is_torchs_own(pool: Callable[[Tensor], Any]) -> None:
    x = noise(2, 3, 5, 5)
    found, slow = pooled(pool, x)
    assert slow
    torch.testing.assert_close(found, pool(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    "wrong", [{"kernel_size": 0}, {"kernel_size": 2, "stride": 0}, {"kernel_size": 2, "padding": 2}]
)
def test_what_torch_refuses_is_refused_in_its_words(wrong: dict[str, Any]) -> None:
    def words(quick: bool) -> str:
        with pytest.raises(RuntimeError) as refusal:
            x = noise(2, 3, 5, 5)
            pooled(lambda x: F.max_pool2d(x, **wrong), x) if quick else F.max_pool2d(x, **wrong)
        return str(refusal.value)

    assert words(quick=True) == words(quick=False)


def test_what_a_network_derives_itself_is_torchs_own() -> None:
    x = torch.ones(1, 1, 2, 2)
    gradient, slow = pooled(grad(lambda x: F.max_pool2d(x, 2).sum()), x)
    assert slow
    assert gradient.flatten().tolist() == [1, 0, 0, 0]  # of equal numbers the first


def test_training_pays_for_no_mode() -> None:
    x = noise(1, 1, 2, 2)
    with torch.no_grad():
        assert not isinstance(quick_pools(x), nullcontext)
    assert isinstance(quick_pools(x), nullcontext)


class Functional(nn.Module):
    """A network that calls the function, as PyTorch's MNIST example does."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = nn.Conv2d(1, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(self.stage(x), 2).flatten(1)[:, :10]


def of_layers(pool: nn.Module) -> Callable[[], nn.Module]:
    """A network with a layer that pools."""
    return lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), pool, nn.Flatten(), nn.Linear(36, 10))


@pytest.mark.parametrize("make", [Functional, of_layers(nn.MaxPool2d(2)), of_layers(MaxPool(2))])
def test_evaluation_meets_quick_pools_and_training_torchs(make: Callable[[], nn.Module]) -> None:
    module, x = make(), noise(5, 1, 8, 8)
    expected = module(x)
    model = FlatModel(module, 10, x[:1])
    theta = torch.stack([model.init(), model.init() + 1])
    with torch.no_grad(), Calls() as calls:
        one, both = model.logits(theta[0], x), vmap(model.logits, (0, None))(theta, x)
    assert SLOW not in calls.found
    assert torch.ops.aten.maximum.default in calls.found
    assert torch.equal(one, expected)
    torch.testing.assert_close(both[0], expected)
    with Calls() as calls:
        model.logits(theta[0].requires_grad_(), x)
    assert torch.ops.aten.maximum.default not in calls.found
