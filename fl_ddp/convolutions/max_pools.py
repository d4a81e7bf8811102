"""Max pooling on a CPU without a compiler: maxima of rows, then of columns, each of many numbers at once.

Torch's own compares one number after another, and takes longer for what a convolution gives than that did. The largest
of some numbers is the same in any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode, _get_current_function_mode

Sides = int | Sequence[int]
"""A number for height and width, or one for each."""


def quick_pools(x: Tensor) -> AbstractContextManager[None]:
    """A block in which F.max_pool2d is quick for what becomes of x, on a CPU where nobody derives it."""
    plain = torch.compiler.is_compiling() or torch.is_grad_enabled() or x.device.type != "cpu"
    if plain or _get_current_function_mode():  # type: ignore[no-untyped-call]  # layers tell the innermost mode alone
        return nullcontext()
    return _QuickPools()


class _QuickPools(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        pools = func in (F.max_pool2d, torch.max_pool2d) and not torch.is_grad_enabled()  # a network may derive, too
        quick = _quick(*args, **given) if pools else None
        return func(*args, **given) if quick is None else quick


def _quick(
    input: Tensor,
    kernel_size: Sides,
    stride: Sides | None = None,
    padding: Sides = 0,
    dilation: Sides = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor | None:
    """What F.max_pool2d gives; None for what is rare, or refused there."""
    stride = kernel_size if stride is None or stride == [] else stride
    sides = [*zip(*map(_each, (kernel_size, stride, padding, dilation)), strict=True)]
    usual = input.ndim == 4 and input.stride(3) == 1 and input.is_floating_point()  # torch is quick with channels last
    if not usual or ceil_mode or return_indices or any(k < 2 or s < 1 or d < 1 for k, s, _, d in sides):
        return None
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, (k, s, p, d) in zip(input.shape[2:], sides, strict=True)]
    (_, _, high, _), (_, _, wide, _) = sides
    if min(counts) < 1 or any(not 0 <= 2 * p <= k for k, _, p, _ in sides):
        return None
    x = F.pad(input, (wide, wide, high, high), value=-torch.inf) if high or wide else input
    for axis, count, (k, s, _, d) in zip((2, 3), counts, sides, strict=True):
        parts = [x.narrow(axis, i * d, s * (count - 1) + 1) for i in range(k)]
        parts = [part[:, :, ::s] if axis == 2 else part[..., ::s] for part in parts]
        x = parts[0]
        for part in parts[1:]:
            x = torch.maximum(x, part)
    return x.contiguous()


def _each(sides: Sides) -> tuple[int, int]:
    return (sides, sides) if isinstance(sides, int) else (sides[0], sides[-1])
