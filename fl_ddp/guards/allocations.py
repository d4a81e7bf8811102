"""What a user's code asks of memory before it is taken: a system may promise any amount, and kill for keeping it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode


class AtMost(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Refuses to make tensors of more than so many bytes in a block, with a MemoryError; it changes nothing else.

    Attributes:
        bytes: asked for so far.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._limit, self.bytes = limit, 0

    def __torch_dispatch__(
        self,
        function: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        kwargs = kwargs or {}
        self.bytes += _bytes_of_new(args, kwargs)
        if self.bytes > self._limit:
            raise MemoryError(f"{self.bytes} bytes")
        return function(*args, **kwargs)


class NewBytes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of all results of a block that are no views.

    Attributes:
        count: so far.
        largest: result so far.
        patches: of each convolution of images, by its filters in a group: what they meet, which a GPU may write down.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.count = self.largest = 0
        self.patches: list[tuple[int, int]] = []

    def __torch_dispatch__(
        self,
        function: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        made = function(*args, **(kwargs or {}))
        given = {each.untyped_storage().data_ptr() for each in args if isinstance(each, Tensor)}
        for each in made if isinstance(made, tuple | list) else (made,):
            if isinstance(each, Tensor) and each.untyped_storage().data_ptr() not in given:
                self.count += each.nbytes
                self.largest = max(self.largest, each.nbytes)
        if function is torch.ops.aten.convolution.default and isinstance(made, Tensor) and made.ndim == 4:
            filters, transposed, groups = args[1], args[6], args[8]
            assert isinstance(filters, Tensor) and isinstance(groups, int)
            if not transposed:
                places, numbers = made.nbytes // made.shape[1], filters[0].numel() * groups
                self.patches.append((len(filters) // groups, places * numbers))
        return made


def _bytes_of_new(args: tuple[object, ...], kwargs: Mapping[str, object]) -> int:
    """Of the tensor that a function makes of a size alone; 0 of any other."""
    if not args or not isinstance(args[0], list | tuple | torch.Size) or not all(type(n) is int for n in args[0]):
        return 0
    dtype = kwargs.get("dtype") or torch.get_default_dtype()
    assert isinstance(dtype, torch.dtype)
    return prod(args[0]) * dtype.itemsize
