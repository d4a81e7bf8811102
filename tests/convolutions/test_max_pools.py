"""Max pooling that is quick on a CPU has the numbers of torch's, and is what a model's evaluation meets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn, vmap
from torch.func import grad, jvp
from torch.nn import functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from fl_ddp.convolutions.max_pools import quick_pools
from fl_ddp.models.layers import MaxPool
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.network.recurrence import WatchesLayers

SLOW = torch.ops.aten.max_pool2d_with_indices.default
SPECIAL = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1.0])
BITS = {torch.float32: torch.int32, torch.float64: torch.int64, torch.bfloat16: torch.int16}


def noise(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def bits(x: Tensor) -> Tensor:
    """Those of numbers, of which one that is none has no others."""
    return x.nan_to_num(12345, torch.inf, -torch.inf).view(BITS[x.dtype])


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
    with torch.no_grad(), Calls() as calls, quick_pools(x, convolves=True):
        return pool(x), SLOW in calls.found


@settings(max_examples=150, deadline=None)
@given(
    sides=st.tuples(st.integers(1, 70), st.integers(4, 70)),
    kernel=st.tuples(st.integers(2, 4), st.integers(2, 4)),
    stride=st.none() | st.tuples(st.integers(1, 2), st.integers(1, 2)),
    padding=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    dilation=st.integers(1, 3),
    dtype=st.sampled_from([*BITS]),
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
    x = noise(-(-(2**13) // (3 * sides[0] * sides[1])), 3, *sides, seed=seed).mul(3).round().to(dtype)  # with ties
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
    assert slow == (expected.shape[3] < 4 or 2 * padding[0] > kernel[0] or 2 * padding[1] > kernel[1])
    assert torch.equal(bits(found), bits(expected if slow else expected + 0.0))
    assert found.is_contiguous()


def test_bits_depend_on_neither_threads_nor_lanes() -> None:
    x = torch.zeros(2, 1, 1738, 46)
    x[:, :, 1::2] = -0.0
    threads, found = torch.get_num_threads(), list[Tensor]()
    try:
        for number in (1, 2):
            torch.set_num_threads(number)
            found.append(pooled(lambda x: F.max_pool2d(x, 2), x)[0])
    finally:
        torch.set_num_threads(threads)
    lanes, slow = pooled(lambda x: vmap(lambda x: F.max_pool2d(x, 2), 4, 4)(x), x.expand(3, *x.shape).movedim(0, 4))
    assert not slow
    for each in (*found, *lanes.unbind(4)):
        assert not each.signbit().any()


@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 2, return_indices=True),
        lambda x: F.max_pool2d(x, 2, ceil_mode=True),
        lambda x: F.max_pool2d(x, (1, 2)),
        lambda x: F.max_pool2d(x, 9, 1),
        lambda x: F.max_pool2d(x, 2, 3),
        lambda x: F.max_pool2d(x, 11, 11),
        lambda x: F.max_pool2d(x[0], 2),
        lambda x: F.max_pool2d(x[:1, :1], 2),
        lambda x: F.max_pool2d(x[..., :7], 2),
        lambda x: F.max_pool2d(x, np.int64(2)),  # type: ignore[call-overload]
        lambda x: F.max_pool2d(x, 2, ()),
        lambda x: F.max_pool2d(x.to(memory_format=torch.channels_last), 2),
    ],
)
def test_what_is_rare_or_no_quicker_is_torchs_own(pool: Callable[[Tensor], Any]) -> None:
    x = noise(40, 3, 11, 11)
    found, slow = pooled(pool, x)
    assert slow
    torch.testing.assert_close(found, pool(x), rtol=0, atol=0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"kernel_size": 0},
        {"kernel_size": 2, "stride": 0},
        {"kernel_size": 2, "padding": 2},
        {"kernel_size": 2, "dilation": 0},
        {"kernel_size": [3, 2, 2]},
        {"kernel_size": range(2, 4)},
        {"kernel_size": []},
        {"kernel_size": 2.0},
        {"kernel_size": 2, "ceil_mode": 0},
        {"kernel_size": 2, "input": None},
        {"kernel_size": 2, "input": noise(5, 3, 11, 11)[:, :0]},
    ],
)
def test_what_torch_refuses_is_refused_in_its_words(wrong: dict[str, Any]) -> None:
    x = noise(40, 3, 11, 11)

    def words(quick: bool) -> str:
        with pytest.raises((RuntimeError, TypeError)) as refusal:
            pool = partial(F.max_pool2d, **({"input": x} | wrong))
            pooled(lambda _: pool(), x) if quick else pool()
        return str(refusal.value)

    assert words(quick=True) == words(quick=False)


def test_what_a_network_derives_itself_is_torchs_own() -> None:
    x = torch.ones(32, 1, 16, 16)

    def total(x: Tensor) -> Tensor:
        return F.max_pool2d(x, 2).sum()

    gradient, slow = pooled(grad(total), x)
    assert slow
    assert gradient[0, 0, :2, :2].flatten().tolist() == [1, 0, 0, 0]  # of equal numbers the first
    (_, tangent), slow = pooled(lambda x: jvp(total, (x,), (gradient,)), x)
    assert slow
    assert tangent == 32 * 8 * 8


def test_training_and_networks_without_convolutions_pay_for_no_mode() -> None:
    x = noise(1, 1, 2, 2)
    with torch.no_grad():
        assert not isinstance(quick_pools(x, convolves=True), nullcontext)
        assert isinstance(quick_pools(x, convolves=False), nullcontext)
    assert isinstance(quick_pools(x, convolves=True), nullcontext)


class Watches(WatchesLayers):
    """A mode that changes nothing."""

    def __torch_function__(self, func: Any, types: object, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_who_watches_recurrent_layers_stays_the_innermost() -> None:
    x = noise(1, 1, 2, 2)
    with torch.no_grad(), Watches():
        assert isinstance(quick_pools(x, convolves=True), nullcontext)


class Functional(nn.Module):
    """A network that calls the function, as PyTorch's MNIST example does."""

    def __init__(self) -> None:
        super().__init__()
        self.stage = nn.Conv2d(1, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(self.stage(x), 2).flatten(1)[:, :10]


def of_layers(pool: nn.Module) -> Callable[[], nn.Module]:
    """A network with a layer that pools."""
    return lambda: nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), pool, nn.Flatten(), nn.Linear(100, 10))


@pytest.mark.parametrize("make", [Functional, of_layers(nn.MaxPool2d(2)), of_layers(MaxPool(2))])
def test_evaluation_meets_quick_pools_and_training_torchs(make: Callable[[], nn.Module]) -> None:
    module, x = make(), noise(64, 1, 12, 12)
    expected = module(x)
    model = FlatModel(module, 10, x[:1])
    theta = torch.stack([model.init(), model.init() + 1])
    with torch.no_grad(), Calls() as calls:
        one, both = model.logits(theta[0], x), vmap(model.logits, (0, None))(theta, x)
    assert SLOW not in calls.found
    assert torch.ops.aten.maximum.default in calls.found
    assert torch.equal(one, expected)
    torch.testing.assert_close(both[0], expected)
    torch.testing.assert_close(both[1], model.logits(theta[1], x))
    with Calls() as calls:
        model.logits(theta[0].requires_grad_(), x)
    assert torch.ops.aten.maximum.default not in calls.found
