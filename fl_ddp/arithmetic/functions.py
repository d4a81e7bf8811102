"""Functions of single numbers on a CPU that depend on nothing but the numbers.

torch computes the numbers of a tensor in vectors, and what is left over at its end, or at the end of a thread's part,
one by one, by functions whose last bits are others. A client's numbers are left over or not by its place in a group.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache

import torch
from torch import Tensor

FUNCTIONS = (
    "sigmoid", "sigmoid_backward", "softplus", "softplus_backward", "silu", "silu_backward", "elu", "elu_backward",
    "mish", "mish_backward", "gelu", "gelu_backward", "exp2", "logaddexp", "logaddexp2", "atanh", "atan2", "sinh",
    "cosh", "hypot", "rsqrt", "igamma", "igammac", "special_i0e", "pow.Tensor_Scalar", "pow.Scalar",
    "pow.Tensor_Tensor",
)  # fmt: skip
"""Those of torch whose last bits depend on the place, by the names of ATen's.

Left as they are: complex numbers, what is written to `out=`, and sums with `alpha=` in bfloat16.
"""
IN_PLACE = (
    "sigmoid_", "silu_", "elu_", "mish_", "gelu_", "exp2_", "pow_.Scalar", "pow_.Tensor", "atanh_", "atan2_", "sinh_",
    "cosh_", "hypot_", "rsqrt_", "igamma_", "igammac_",
)  # fmt: skip
"""The same, into the tensor that they are given."""
_PRODUCTS = (2, 3)
"""Powers that are made of products, whose bits do not depend on the place."""
_VECTORS = 64
"""Numbers that all of torch's vectors go up in, of any type and processor."""
_PART = 32768
"""Numbers from which on torch deals a tensor to its threads."""

_Kernel = Callable[..., Tensor]


@cache
def functions_by_value() -> torch.library.Library:
    """Have torch compute FUNCTIONS in whole vectors alone, from now on: a function is then one of its numbers."""
    ours = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    put: Callable[..., None] = ours.impl
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Warning only once", category=UserWarning)  # that they are replaced
        for name in (*FUNCTIONS, *IN_PLACE):
            kernel = torch.library.get_kernel(f"aten::{name}", "CPU").call_boxed
            function = _into_the_first(name, kernel) if name in IN_PLACE else _by_value(kernel)
            put(name, function, "CPU", with_keyset=True)
    return ours


def _by_value(kernel: _Kernel) -> _Kernel:
    def function(keys: object, *given: object, **options: object) -> Tensor:
        operands = _operands(given)
        of_products = len(given) == 2 and not isinstance(given[1], Tensor) and given[1] in _PRODUCTS
        if not operands or of_products or not all(one.is_floating_point() for one in operands):
            return kernel(keys, *given, **options)
        first = operands[0]
        alike = all(one.shape == first.shape and one.is_contiguous() for one in operands)
        if alike and _threads(first.numel()) == 1:
            return _with_end(kernel, keys, given, options)
        return _in_a_row(kernel, keys, given, options)

    return function


def _operands(given: Sequence[object]) -> list[Tensor]:
    """What a function is computed of number by number; tensors of no dimensions are scalars in all but type."""
    return [one for one in given if isinstance(one, Tensor) and one.ndim]


def _in_rows(given: Sequence[object], length: int, row: Callable[[Tensor], Tensor]) -> list[object]:
    """The same with a row of zeros behind what is made of each operand, so long in all."""

    def filled(one: Tensor) -> Tensor:
        numbers = row(one)
        return torch.cat([numbers, numbers.new_zeros(length - len(numbers))])

    return [filled(one) if isinstance(one, Tensor) and one.ndim else one for one in given]


def _with_end(kernel: _Kernel, keys: object, given: Sequence[object], options: Mapping[str, object]) -> Tensor:
    """A function of contiguous tensors; what is left over behind the last whole vector is computed in one, too."""
    result = kernel(keys, *given, **options)
    if left := result.numel() % _VECTORS:
        ends = _in_rows(given, _VECTORS, lambda one: one.reshape(-1)[-left:])
        result.view(-1)[-left:] = kernel(keys, *ends, **options)[:left]
    return result


def _in_a_row(kernel: _Kernel, keys: object, given: Sequence[object], options: Mapping[str, object]) -> Tensor:
    """A function of any tensors, or by several threads, of which each has whole vectors of rows made of them."""
    operands = _operands(given)
    shape = torch.broadcast_shapes(*(one.shape for one in operands))  # type: ignore[no-untyped-call]
    numbers = math.prod(shape)
    whole = _VECTORS * _threads(numbers)
    rows = _in_rows(given, math.ceil(numbers / whole) * whole, lambda one: one.expand(shape).reshape(-1))
    values = kernel(keys, *rows, **options)[:numbers].view(shape)
    pattern = next((one for one in operands if one.shape == shape), values)
    return torch.empty_like(pattern, dtype=values.dtype).copy_(values)


def _threads(numbers: int) -> int:
    """How many threads torch has compute so many numbers."""
    return max(min(torch.get_num_threads(), math.ceil(numbers / _PART)), 1)


def _into_the_first(name: str, kernel: _Kernel) -> _Kernel:
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base.removesuffix("_"))
    within = getattr(packet, {"Scalar": "Tensor_Scalar", "Tensor": "Tensor_Tensor"}.get(overload, "default"))

    def function(keys: object, first: Tensor, *given: object, **options: object) -> Tensor:
        others = [one for one in given if isinstance(one, Tensor)]
        if not first.is_floating_point() or any(one.is_complex() or _shares(one, first) for one in others):
            return kernel(keys, first, *given, **options)  # has torch's own words for what is no number of the first's
        return first.copy_(within(first, *given, **options))

    return function


def _shares(one: Tensor, other: Tensor) -> bool:
    return one.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
