"""What keeps a GPU busy."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.autograd.profiler_util import FunctionEventAvg
from torch.profiler import ProfilerActivity, profile


def profiled(work: Callable[[], object]) -> profile:
    """What a profiler has seen of something: a GPU's part alone, or a CPU's on a machine without one."""
    on_gpu = torch.cuda.is_available()
    seen = profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU])
    with seen:
        work()
        if on_gpu:
            torch.cuda.synchronize()
    return seen


def kernels_of(work: Callable[[], object]) -> list[FunctionEventAvg]:
    """Kernels that something launches, the longest first; on a machine without a GPU there is none."""
    on_gpu = torch.cuda.is_available()
    kernels = [each for each in profiled(work).key_averages() if on_gpu and each.self_device_time_total > 0]
    return sorted(kernels, key=lambda each: -each.self_device_time_total)


def busy_us(kernels: list[FunctionEventAvg]) -> float:
    """Microseconds of the GPU's that they take together, which a host that launches them slowly does not lengthen."""
    return sum(each.self_device_time_total for each in kernels)
