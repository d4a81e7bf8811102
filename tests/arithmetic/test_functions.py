"""Functions of single numbers depend on nothing but the numbers: not on their place, their company or the threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from launching import one_thread
from torch import Tensor
from torch.nn import functional as F

from fl_ddp.arithmetic.functions import FUNCTIONS, IN_PLACE, functions_by_value

Function = Callable[[Tensor], Tensor]

OF_TORCH = (
    "exp", "exp2", "expm1", "log", "log1p", "log2", "log10", "sigmoid", "tanh", "sin", "cos", "tan", "sinh", "cosh",
    "atan", "asinh", "erf", "erfc", "rsqrt", "sqrt", "reciprocal", "lgamma", "digamma", "acosh", "sinc", "square",
)  # fmt: skip
OF_SPECIAL = ("entr", "ndtr", "i0", "i0e", "i1", "i1e", "expit")
OF_NETWORKS = (
    "softplus", "silu", "elu", "selu", "celu", "mish", "gelu", "logsigmoid", "hardswish", "hardsigmoid", "softsign",
    "tanhshrink", "softshrink", "leaky_relu", "relu6",
)  # fmt: skip
OF_MORE: Mapping[str, Function] = {
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "atanh": lambda x: torch.atanh(x / 10),
    "asin": lambda x: torch.asin(x / 10),
    "acos": lambda x: torch.acos(x / 10),
    "erfinv": lambda x: torch.erfinv(x / 10),
    "to the 1.5": lambda x: x.abs().pow(1.5),
    "to the -2": lambda x: x.pow(-2),
    "2 to the": lambda x: torch.pow(2.0, x),
    "x to the x": lambda x: torch.pow(x.abs(), x),
    "atan2": lambda x: torch.atan2(x, x * 0.3),
    "hypot": lambda x: torch.hypot(x, x * 0.3),
    "igamma": lambda x: torch.igamma(torch.full_like(x, 1.5), x.abs()),
    "logaddexp": lambda x: torch.logaddexp(x, x * 0.3),
    "logaddexp2": lambda x: torch.logaddexp2(x, x * 0.3),
    "divided": lambda x: x / 0.37,
    "addcmul": lambda x: torch.addcmul(x, x * 0.7, x * 0.3, value=0.77),
    "addcdiv": lambda x: torch.addcdiv(x, x * 0.7, x + 20, value=0.77),
    "lerp": lambda x: torch.lerp(x, x * 0.7, 0.3),
    "softmax": lambda x: torch.stack([x, x * 0.3], -1).softmax(-1)[..., 0],
    "log_softmax": lambda x: torch.stack([x, x * 0.3], -1).log_softmax(-1)[..., 0],
    "logsumexp": lambda x: torch.stack([x, x * 0.3], -1).logsumexp(-1),
    "cross entropy of two": lambda x: F.binary_cross_entropy_with_logits(x, (x > 0).to(x), reduction="none"),
    "sigmoid in place": lambda x: (x * 1).sigmoid_(),
    "silu in place": lambda x: F.silu(x * 1, inplace=True),
    "elu in place": lambda x: F.elu(x * 1, inplace=True),
    "selu in place": lambda x: F.selu(x * 1, inplace=True),
    "mish in place": lambda x: F.mish(x * 1, inplace=True),
    "power in place": lambda x: (x * 1).abs().pow_(1.5),
    "exp2 in place": lambda x: (x * 1).exp2_(),
}
ALL: Mapping[str, Function] = {
    **{name: getattr(torch, name) for name in OF_TORCH},
    **{name: getattr(torch.special, name) for name in OF_SPECIAL},
    **{name: getattr(F, name) for name in OF_NETWORKS},
    **OF_MORE,
}
ABOVE_ONE = ("log", "log2", "log10", "log1p", "rsqrt", "sqrt", "lgamma", "digamma", "acosh")


@pytest.fixture(autouse=True)
def installed() -> None:
    functions_by_value()


def slope(function: Function) -> Function:
    def of(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x).sum(), x)[0]

    return of


def numbers(name: str, count: int, dtype: torch.dtype) -> Tensor:
    x = torch.randn(count, generator=torch.Generator().manual_seed(0)) * 2
    return (x.abs() + 1.01 if name in ABOVE_ONE else x).to(dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ALL)
def test_a_function_and_its_slope_do_not_depend_on_place(name: str, dtype: torch.dtype) -> None:
    x = numbers(name, 2000, dtype)
    for function in (ALL[name], slope(ALL[name])):
        with one_thread():
            together, alone = function(x), torch.cat([function(part.clone()) for part in torch.split(x, 7)])
        assert torch.equal(together.nan_to_num(), alone.nan_to_num())


@pytest.mark.parametrize("name", ["sigmoid", "silu", "rsqrt", "x to the x"])
def test_bfloat16_does_not_depend_on_place(name: str) -> None:
    x = numbers(name, 2000, torch.bfloat16)
    alone = torch.cat([ALL[name](part.clone()) for part in torch.split(x, 7)])
    assert torch.equal(ALL[name](x).nan_to_num(), alone.nan_to_num())


@pytest.mark.parametrize(("threads", "count"), [(2, 70_000), (3, 100_090), (3, 120_000)])
def test_parts_of_threads_are_whole_vectors(threads: int, count: int) -> None:
    x = torch.randn(count)
    with one_thread():
        alone = torch.sigmoid(x)
        torch.set_num_threads(threads)
        assert torch.equal(torch.sigmoid(x), alone)


@pytest.mark.parametrize("name", ALL)
def test_values_are_the_functions_own(name: str) -> None:
    x = numbers(name, 51, torch.float64)
    exact, ours = ALL[name](x), ALL[name](x.float()).double()
    assert torch.allclose(ours, exact, rtol=1e-4, atol=1e-5, equal_nan=True)


@given(st.lists(st.integers(0, 5), max_size=4), st.booleans())
def test_shapes_are_as_they_were(shape: list[int], turned: bool) -> None:
    x = torch.randn(shape)
    x = x.mT if turned and x.dim() > 1 else x
    assert torch.sigmoid(x).shape == x.shape
    assert torch.allclose(torch.sigmoid(x), 1 / (1 + (-x).exp()))
    assert torch.atan2(x, torch.ones(())).shape == x.shape


def test_other_numbers_and_broadcasts_are_as_they_were() -> None:
    assert torch.pow(torch.tensor([2, 3]), 2).tolist() == [4, 9]
    assert torch.pow(torch.tensor([2.0, 3.0]), torch.tensor([[1], [2]])).tolist() == [[2, 3], [4, 9]]
    assert torch.hypot(torch.full((2, 1), 3.0), torch.full((3,), 4.0)).tolist() == [[5, 5, 5], [5, 5, 5]]
    assert torch.sigmoid(torch.tensor([1, 0])).dtype == torch.float32
    x = torch.zeros(3)
    assert x.sigmoid_() is x and x.tolist() == [0.5, 0.5, 0.5]


def test_types_are_torchs_own() -> None:
    x, e = torch.rand(3, 5), torch.tensor(0.5, dtype=torch.float64)
    for function in (torch.pow, torch.atan2, torch.hypot, torch.logaddexp):
        assert function(x, e).dtype == function(x.bfloat16().float(), e).dtype == torch.float32
        assert function(x, e.expand(5)).dtype == torch.float64
    assert torch.pow(e, 2).dtype == torch.float64 and torch.sigmoid(e).shape == ()


def test_layouts_are_torchs_own() -> None:
    x = torch.randn(2, 3, 4, 5)
    for other in (x, x.mT, x.permute(0, 2, 3, 1), x.to(memory_format=torch.channels_last), x[:, :, ::2], x[:1]):
        for function in (torch.sigmoid, F.silu, F.gelu, torch.exp2, lambda each: torch.pow(each.abs(), each)):
            assert function(other).stride() == other.abs().stride()
            assert torch.allclose(function(other), function(other.contiguous()), equal_nan=True)
    assert torch.sigmoid(torch.randn(3, 5)).untyped_storage().nbytes() == 60


def test_lanes_of_other_layouts_do_not_depend_on_place() -> None:
    x = torch.randn(7, 13, 5)
    for turned in (x.mT, x.transpose(0, 1), x[..., ::2]):
        together = torch.sigmoid(turned)
        alone = [torch.sigmoid(number.clone()) for number in torch.split(turned.flatten(), 1)]
        assert torch.equal(together.flatten(), torch.cat(alone))


def test_what_a_tensor_cannot_hold_is_refused_in_place() -> None:
    x = torch.rand(6)
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.arange(5).rsqrt_()
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.arange(5).sigmoid_()
    with pytest.raises(RuntimeError, match="can't be cast"):
        x.pow_(torch.full((6,), 0.5j))
    with pytest.raises(RuntimeError, match="memory"):
        x[1:].pow_(x[:-1])


def test_all_kinds_of_a_function_are_in_the_list() -> None:
    for name in FUNCTIONS:
        base, _, overload = name.partition(".")
        within = [each for each in (f"{base}_", f"{base}_.{overload.removeprefix('Tensor_')}") if each in IN_PLACE]
        operation = getattr(torch.ops.aten, f"{base}_", None)
        assert within or operation is None or name == "pow.Scalar", name
