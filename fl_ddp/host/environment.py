"""Settings of the process, made before the first computation."""

from __future__ import annotations

import ctypes
import logging
import os
import platform
import tempfile
import warnings
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

_CACHE, _TORCHS_OWN = "TORCHINDUCTOR_CACHE_DIR", str(Path(tempfile.gettempdir(), "torchinductor_"))
_M_TRIM_THRESHOLD, _M_MMAP_MAX, _M_ARENA_MAX = -1, -4, -8


def cache_folder() -> Path:
    """Where all runs of a user keep what is long in the making: of the temporary files for one without a home."""
    given = os.environ.get("XDG_CACHE_HOME")
    try:
        return Path(given or Path.home() / ".cache") / "fl_ddp"
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"fl_ddp_{os.getuid()}"


def prepare() -> None:
    """Make local steps fast and repeatable: buffers are kept, and all runs of a user share their compiled steps.

    glibc otherwise returns every multi-megabyte buffer to the kernel, and the page faults of getting it back cost more
    than the arithmetic.
    """
    # the compiler sets its own place when it is imported, as by torchvision before this in a notebook
    if os.environ.get(_CACHE, _TORCHS_OWN).startswith(_TORCHS_OWN):
        os.environ[_CACHE] = str(cache_folder() / "compiled")
    # the same bits on every call, at little cost: cuBLAS otherwise chooses by load
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    # of kernels of our own, which are one and the same; Triton 3.10 changes what it does unasked
    os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")
    # from 2.14 on torch otherwise takes those of CUDA's toolkit, where there is one
    if functions := _tritons_functions():
        os.environ.setdefault("TRITON_LIBDEVICE_PATH", functions)
    # a machine with CUDA's compiler but no GPU is no reason for a warning
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)
    # which products are TF32 is --precision's to say
    warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores", category=UserWarning)
    if platform.libc_ver()[0] == "glibc":
        libc = ctypes.CDLL(None)
        libc.mallopt(_M_MMAP_MAX, 0)
        libc.mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(_M_ARENA_MAX, 1 + (os.cpu_count() or 1))


def _tritons_functions() -> str:
    """The file of powers, logarithms and the like that comes with Triton; empty if it is not there."""
    try:
        file = Path(str(distribution("triton").locate_file("triton/backends/nvidia/lib/libdevice.10.bc")))
    except PackageNotFoundError:
        return ""
    return str(file) if file.is_file() else ""


def usable_cores() -> int:
    """Cores that this process may run on; all of the machine where the system, as macOS, does not tell."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
