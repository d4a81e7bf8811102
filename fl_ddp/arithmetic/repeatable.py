"""How a device computes: the same bits every time, and products of float32 numbers as they are asked for."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import torch
from torch.utils import deterministic

from fl_ddp.arithmetic.functions import functions_by_value
from fl_ddp.errors import ConfigError

_TF32_FROM = 8
"""Compute capability of the first GPUs whose tensor cores multiply in TF32."""


def require_precision(precision: str, device: torch.device) -> None:
    """Refuse a precision that a device has not.

    Raises:
        ConfigError: tf32, and it is a CPU or an older GPU.
    """
    if precision != "tf32":
        return
    if device.type != "cuda":
        raise ConfigError("--precision", "tf32 is of GPUs, and this run is on a CPU", "float32 or bfloat16")
    if torch.cuda.get_device_capability(device)[0] < _TF32_FROM:
        what = f"tf32, which {torch.cuda.get_device_name(device)} has not"
        raise ConfigError("--precision", what, "float32 or bfloat16")


@contextmanager
def as_it_begins() -> Iterator[None]:
    """Let torch make tensors as in a fresh process until the end of the block, whatever a notebook has set."""
    dtype, cpu = torch.get_default_dtype(), torch.device("cpu")
    try:
        torch.set_default_dtype(torch.float32)
        # a device that is set has each function of torch called by way of Python
        with torch.inference_mode(False), nullcontext() if torch.get_default_device() == cpu else cpu:
            yield
    finally:
        torch.set_default_dtype(dtype)


@contextmanager
def repeatable(device_type: str, *, tf32: bool) -> Iterator[None]:
    """Compute the same bits on every call, wherever a number lies, until the end of the block.

    On a GPU torch otherwise takes kernels with float atomics, cuDNN's fastest by trial, and compiles reductions in
    several ways of which the fastest here and now stays. All settings are of the process, and are put back; what is
    done for functions on a CPU stays.

    Args:
        device_type: cpu or cuda.
        tf32: round the factors of convolutions and matrix products to ten bits; if not, they are IEEE's throughout,
            cuDNN's too, which torch rounds by default.
    """
    if device_type != "cuda":
        functions_by_value()
        yield
        return
    cudnn = torch.backends.cudnn
    flags = cudnn.deterministic, cudnn.benchmark
    warns, strict = torch.is_deterministic_algorithms_warn_only_enabled(), torch.are_deterministic_algorithms_enabled()
    filled, products = deterministic.fill_uninitialized_memory, _products()  # type: ignore[attr-defined]
    try:
        cudnn.deterministic, cudnn.benchmark = True, False
        torch.use_deterministic_algorithms(True)
        deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
        _multiply(tf32, tf32, ["tf32" if tf32 else "ieee"] * len(_operations()))
        yield
    finally:
        cudnn.deterministic, cudnn.benchmark = flags
        torch.use_deterministic_algorithms(strict, warn_only=warns)
        deterministic.fill_uninitialized_memory = filled  # type: ignore[attr-defined]
        _multiply(*products)


def versions_on_gpu() -> dict[str, object]:
    """What decides the bits on a GPU beside its kind: whether kernels are repeatable, and who makes them."""
    return {
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
        "triton": _triton(),
        "fp_fusion": os.environ.get("TRITON_DEFAULT_FP_FUSION"),
    }


def _triton() -> str | None:
    with suppress(PackageNotFoundError):
        return version("triton")
    return None


def _operations() -> list[Any]:
    """What torch multiplies float32 numbers with, each with an fp32_precision of its own."""
    return [torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn]  # type: ignore[attr-defined]


def _products() -> tuple[bool | None, bool | None, list[str]]:
    """How products are made now: by torch's older two switches, None where they contradict the newer, and by these."""
    older: list[bool | None] = []
    for place in (torch.backends.cuda.matmul, torch.backends.cudnn):
        try:
            older.append(bool(place.allow_tf32))
        except RuntimeError:
            older.append(None)
    return older[0], older[1], [each.fp32_precision for each in _operations()]


def _multiply(matmul: bool | None, cudnn: bool | None, newer: list[str]) -> None:
    """Set the older switches, which Inductor still reads, then the newer, which decide."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*TF32", category=UserWarning)  # torch advises against the older
        if matmul is not None:
            torch.backends.cuda.matmul.allow_tf32 = matmul
        if cudnn is not None:
            torch.backends.cudnn.allow_tf32 = cudnn
        for each, precision in zip(_operations(), newer, strict=True):
            each.fp32_precision = precision
