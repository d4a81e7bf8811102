"""What keeps a GPU busy."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch.autograd.profiler_util import FunctionEventAvg
from torch.profiler import ProfilerActivity, profile


def kernels_of(work: Callable[[], object]) -> list[FunctionEventAvg]:
    """Kernels that something launches, the longest first; on a machine without a GPU there is none."""
    on_gpu = torch.cuda.is_available()
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as seen:
        work()
        if on_gpu:
            torch.cuda.synchronize()
    kernels = [each for each in seen.key_averages() if on_gpu and each.self_device_time_total > 0]
    return sorted(kernels, key=lambda each: -each.self_device_time_total)


def busy_us(kernels: list[FunctionEventAvg]) -> float:
    """Microseconds of the GPU's that they take together, which a host that launches them slowly does not lengthen."""
    return sum(each.self_device_time_total for each in kernels)
