"""Functions of single numbers on a CPU that depend on nothing but the numbers.

torch computes the numbers of a tensor in vectors, and what is left over at its end, or at the end of a thread's part,
one by one, by functions whose last bits are others. A client's numbers are left over or not by its place in a group.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

FUNCTIONS = (
    "sigmoid", "sigmoid_backward", "softplus", "softplus_backward", "silu", "silu_backward", "elu", "elu_backward",
    "mish", "mish_backward", "gelu", "gelu_backward", "exp2", "logaddexp", "logaddexp2", "atanh", "atan2", "sinh",
    "cosh", "hypot", "rsqrt", "special_i0e", "pow.Tensor_Scalar", "pow.Scalar", "pow.Tensor_Tensor",
)  # fmt: skip
"""Those of torch whose last bits depend on the place, by the names of ATen's; of all others none is known."""
IN_PLACE = (
    "sigmoid_", "silu_", "elu_", "mish_", "gelu_", "exp2_", "pow_.Scalar", "pow_.Tensor", "atanh_", "atan2_", "sinh_",
    "cosh_", "hypot_", "rsqrt_",
)  # fmt: skip
"""The same, into the tensor that they are given."""
_VECTORS = 64
"""Numbers that all of torch's vectors go up in, of any type and processor."""
_PART = 32768
"""Numbers from which on torch deals a tensor to its threads."""


@cache
def functions_by_value() -> torch.library.Library:
    """Have torch compute FUNCTIONS in whole vectors alone, from now on: a function is then one of its numbers."""
    ours = torch.library.Library("aten", "IMPL")  # type: ignore[no-untyped-call]
    put: Callable[..., None] = ours.impl
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Warning only once", category=UserWarning)  # that they are replaced
        for name in FUNCTIONS:
            kernel = torch.library.get_kernel(f"aten::{name}", "CPU").call_boxed
            put(name, _in_whole_vectors(kernel), "CPU", with_keyset=True)
        for name in IN_PLACE:
            put(name, _into_the_first(name), "CPU")
    return ours


def _in_whole_vectors(kernel: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def function(keys: object, *given: object, **options: object) -> Tensor:
        tensors = [one for one in given if isinstance(one, Tensor)]
        shape = torch.broadcast_shapes(*(each.shape for each in tensors))  # type: ignore[no-untyped-call]
        numbers = math.prod(shape)
        if not numbers or not all(each.is_floating_point() for each in tensors):
            return kernel(keys, *given, **options)
        length = _whole(numbers)

        def in_a_row(one: object) -> object:
            if not isinstance(one, Tensor):
                return one
            row = one.new_zeros(length)
            row[:numbers].view(shape).copy_(one)
            return row

        result = kernel(keys, *map(in_a_row, given), **options)
        return result[:numbers].view(shape)

    return function


def _into_the_first(name: str) -> Callable[..., Tensor]:
    base, _, overload = name.partition(".")
    packet = getattr(torch.ops.aten, base.removesuffix("_"))
    within = getattr(packet, {"Scalar": "Tensor_Scalar", "Tensor": "Tensor_Tensor"}.get(overload, "default"))

    def function(first: Tensor, *given: object, **options: object) -> Tensor:
        return first.copy_(within(first, *given, **options))

    return function


def _whole(numbers: int) -> int:
    """How long a tensor must be for each thread to have whole vectors of it."""
    threads = max(min(torch.get_num_threads(), math.ceil(numbers / _PART)), 1)
    return math.ceil(numbers / (_VECTORS * threads)) * _VECTORS * threads
