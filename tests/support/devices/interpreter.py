"""Triton's interpreter under a numpy that takes no array of one number for a number, as Triton before 3.8 does."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock


@contextmanager
def interpreter() -> Iterator[None]:
    """Kernels may be interpreted inside, whose loops end at a number that they were given."""
    from triton.runtime import interpreter as of_triton

    patch = of_triton._patch_lang_tensor

    def patched(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda number: int(number.handle.data.item()))

    with mock.patch.object(of_triton, "_patch_lang_tensor", patched):
        yield
