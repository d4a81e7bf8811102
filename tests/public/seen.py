"""Modules as public code is to see them, where it has to see something else than Python does."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


class Seen:
    """A module of which some names are others.

    Args:
        module: that has all other names.
        names: and what they are.
    """

    def __init__(self, module: Any, **names: Any) -> None:
        self._module = module
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class Doubles(np.ndarray[Any, Any]):
    """An array of doubles that stay doubles where single precision is asked for."""

    def astype(self, *_: Any, **__: Any) -> Any:
        return np.array(self)


def torch_of_doubles() -> Seen:
    """The module torch, whose single precision is double precision."""
    return Seen(torch, float=torch.float64, float32=torch.float64)


def numpy_of_doubles(**names: Any) -> Seen:
    """The module numpy, whose new arrays stay doubles."""
    zeros, ones = (lambda shape: np.zeros(shape).view(Doubles)), (lambda shape: np.ones(shape).view(Doubles))
    return Seen(np, zeros=zeros, ones=ones, **names)


def stay(sent_by: str = "cuda") -> None:
    """Have tensors and modules stay where they are, wherever public code sends them by a method of that name."""
    for kind in (Tensor, nn.Module):
        setattr(kind, sent_by, lambda self, *_, **__: self)
