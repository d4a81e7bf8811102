"""Max pooling on a CPU without a compiler: maxima of rows, then of columns, each of many numbers at once.

Torch's own compares one number after another, and takes longer for what a convolution gives than that did. The largest
of some numbers is the same in any order; a zero is a positive one here.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode, _get_current_function_mode

_TYPES = (torch.float32, torch.float64, torch.bfloat16)
_LARGEST_SIDE, _LEAST_COLUMNS, _LEAST_NUMBERS = 8, 4, 2**13
"""Of a window, of what is pooled, and of what is given: beyond them torch's own is as quick."""


def quick_pools(x: Tensor, *, convolves: bool) -> AbstractContextManager[None]:
    """A block in which F.max_pool2d is quick for what becomes of x, on a CPU where nobody derives it.

    Args:
        x: a network's input.
        convolves: whether it has convolutions; others seldom pool, and all of their calls would take longer.
    """
    plain = not convolves or torch.compiler.is_compiling() or torch.is_grad_enabled() or x.device.type != "cpu"
    if plain or _get_current_function_mode():  # type: ignore[no-untyped-call]  # layers tell the innermost mode alone
        return nullcontext()
    return _QuickPools()


class _QuickPools(TorchFunctionMode):
    def __torch_function__(
        self, func: Callable[..., Any], types: object, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        quick = _quick(*args, **given) if func is F.max_pool2d and not _derives() else None
        return func(*args, **given) if quick is None else quick


def _derives() -> bool:
    """Whether a network derives something itself."""
    return torch.is_grad_enabled() or forward_ad._current_level >= 0


def _quick(
    input: object,
    kernel_size: object,
    stride: object = None,
    padding: object = 0,
    dilation: object = 1,
    ceil_mode: object = False,
    return_indices: object = False,
) -> Tensor | None:
    """What F.max_pool2d gives; None for what is rare, no quicker, or refused there."""
    asked = (kernel_size, kernel_size if stride is None else stride, padding, dilation)
    sides = [*zip(*map(_each, asked), strict=False)]
    if type(input) is not Tensor or not sides or ceil_mode is not False or return_indices is not False:
        return None
    # torch is quick with channels last
    usual = input.ndim == 4 and input.stride(3) == 1 and input.dtype in _TYPES and input.numel() >= _LEAST_NUMBERS
    if not usual or any(
        not (2 <= k <= _LARGEST_SIDE and 1 <= s <= k and 0 <= 2 * p <= k and d >= 1) for k, s, p, d in sides
    ):
        return None
    counts = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, (k, s, p, d) in zip(input.shape[2:], sides, strict=True)]
    if counts[0] < 1 or counts[1] < _LEAST_COLUMNS:
        return None
    (_, _, high, _), (_, _, wide, _) = sides
    x = F.pad(input, (wide, wide, high, high), value=-torch.inf) if high or wide else input
    for axis, count, (k, s, _, d) in zip((2, 3), counts, sides, strict=True):
        parts = [x.narrow(axis, i * d, s * (count - 1) + 1) for i in range(k)]
        parts = [part[:, :, ::s] if axis == 2 else part[..., ::s] for part in parts]
        x = parts[0]
        for part in parts[1:]:
            x = torch.maximum(x, part)
    return (x + 0.0).contiguous()  # of equal zeros, which one is taken depends on where they lie


def _each(sides: object) -> tuple[int, ...]:
    """A number for height and one for width; nothing if they are not given as usual."""
    if type(sides) is int:
        return sides, sides
    both = sides if isinstance(sides, tuple | list) and len(sides) == 2 else ()
    return tuple(both) if all(type(side) is int for side in both) else ()
