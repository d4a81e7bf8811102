"""Which GPUs torch can use, and what it says of one or of memory, in a run's own words."""

from __future__ import annotations

import re

import torch

from fl_ddp.errors import ConfigError, DeviceError, RunError, first_line, one_line, users_place

_FAILED = ("CUDA error", "unhandled cuda error", "CUDA driver error")
_HOST_MEMORY = ("DefaultCPUAllocator", "not enough memory", "CUDA error: out of memory")
_GPU_MEMORY = ("STATUS_ALLOC_FAILED", "Triton Error [CUDA]: out of memory")
"""What cuBLAS, cuDNN and Triton say where torch's own allocator was not asked."""


def usable_gpus() -> int:
    """How many GPUs there are for torch: device_count() alone counts those, too, whose driver is too old for it."""
    return torch.cuda.device_count() if torch.cuda.is_available() else 0


def device_of(device: str, local: int, local_size: int) -> torch.device:
    """The GPU of a rank, made torch's current one, or the CPU.

    Args:
        device: asked for: auto, cpu or cuda.
        local: number of the rank on its machine.
        local_size: of ranks there.

    Raises:
        ConfigError: it is not there or does not answer, or there are more ranks than GPUs.
    """
    gpus = usable_gpus() if device != "cpu" else 0
    if device == "cuda" and not gpus:
        raise ConfigError("--device", "cuda, but torch sees no GPU on this machine; accepted here: cpu or auto")
    if gpus and local_size > gpus:
        raise ConfigError(
            "--nproc_per_node",
            (
                f"{local_size} ranks on this machine, but {gpus} GPU(s); give at most {gpus}, or --device "
                "cpu; tasks of Slurm must all see all GPUs of their node"
            ),
        )
    if not gpus:
        return torch.device("cpu")
    try:
        torch.cuda.set_device(local)
    except RuntimeError as error:
        raise ConfigError("--device", f"GPU {local} cannot be used ({first_line(error)})", "cpu") from error
    return torch.device("cuda", local)


def gpu_failure(error: BaseException) -> DeviceError | None:
    """The failure of a GPU that an error tells of, if it does: torch's kind of error is that of NCCL's others, too."""
    if isinstance(error, DeviceError):
        return error
    if out_of_memory(error) or not isinstance(error, RuntimeError):
        return None
    text = str(error)
    if not isinstance(error, torch.AcceleratorError) and not any(words in text for words in _FAILED):
        return None
    line = next((line for line in text.splitlines() if any(words in line for words in _FAILED)), text)
    return DeviceError(f"this rank's GPU failed: {one_line(line)}")


def out_of_memory(error: BaseException) -> bool:
    """Whether a GPU's or the machine's memory was too small for what was asked of it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    # CUDA says the last of the host's words where it cannot pin memory, and is none the worse for it
    return isinstance(error, RuntimeError) and any(words in str(error) for words in _HOST_MEMORY + _GPU_MEMORY)


def of_device(error: BaseException, lanes: int | None) -> RunError | None:
    """What to say of an error that comes of the device and not of a line of code; None of any other.

    Args:
        error: torch's or Python's.
        lanes: clients side by side in the run; None where none has begun to train.
    """
    if out_of_memory(error):
        on_gpu = isinstance(error, torch.OutOfMemoryError) or any(words in str(error) for words in _GPU_MEMORY)
        whose = "the GPU's" if on_gpu else "this machine's"
        return RunError(f"{whose} memory is too small for {_asked(error)}; {_less(lanes)}")
    if isinstance(error, RuntimeError) and (found := re.match(r"(.+?) does not have a deterministic impl", str(error))):
        place = users_place(error)
        whose = place or "the model, the method or a measure"
        what = f"{found[1]}, which {whose} needs, has no form on a GPU that gives the same bits twice"
        return RunError(f"{what}; use another layer or operator, tensors' .cpu() in a measure, or --device cpu")
    return gpu_failure(error)


def _asked(error: BaseException) -> str:
    """What did not fit any more."""
    found = re.search(r"[Tt]ri(?:ed|es) to allocate ([\d.]+ (?:[KMGT]i?B|bytes))", str(error))
    return f"{found[1]} more" if found else "what the run needs"


def _less(lanes: int | None) -> str:
    """What needs less."""
    if lanes is None:
        return "the data and one model alone do not fit"
    if lanes == 1:
        return "there is one client at a time already (--lanes 1); a smaller --batch_size or --model needs less"
    return f"a new run with --lanes {lanes // 2} instead of {lanes} needs less"
