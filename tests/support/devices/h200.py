"""An H200 that is not there: what torch's compiler asks a GPU before it generates code for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from types import SimpleNamespace
from unittest import mock

import torch

DEVICE = torch.device("cuda", 0)
PROPERTIES = SimpleNamespace(
    name="NVIDIA H200", major=9, minor=0, total_memory=150_754_820_096, multi_processor_count=132, warp_size=32,
    regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048, max_threads_per_block=1024,
    shared_memory_per_block=49152, shared_memory_per_block_optin=232448, shared_memory_per_multiprocessor=233472,
    L2_cache_size=62914560, gcnArchName="", is_integrated=False, uuid="0",
)  # fmt: skip
_OF_DRIVER = {"max_shared_mem": 232448, "multiprocessor_count": 132, "max_num_regs": 65536, "warpSize": 32}


@contextmanager
def h200() -> Iterator[None]:
    """Say that there is one, to torch, its compiler and Triton; nothing can run on it."""
    import triton
    from torch._dynamo.device_interface import CudaInterface
    from torch._inductor import utils
    from torch._inductor.runtime import triton_helpers
    from torch._inductor.runtime.hints import DeviceProperties
    from torch._subclasses import fake_tensor
    from triton.backends.compiler import GPUTarget

    of_cuda: dict[str, object] = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "_lazy_init": lambda: None,
        "is_initialized": lambda: True,
        "get_device_properties": lambda *_: PROPERTIES,
        "get_device_capability": lambda *_: (9, 0),
        "is_bf16_supported": lambda *_, **__: True,
        "synchronize": lambda *_: None,
        "device": lambda *_: nullcontext(),
        "_DeviceGuard": lambda *_: nullcontext(),
    }
    of_interface: dict[str, object] = {
        "get_device_properties": lambda *_: PROPERTIES,
        "is_available": lambda: True,
        "current_device": lambda: 0,
        "device_count": lambda: 1,
        "get_compute_capability": lambda *_: 90,
        "synchronize": lambda *_: None,
        "is_bf16_supported": lambda *_, **__: True,
        "is_triton_capable": lambda *_: True,
        "raise_if_triton_unavailable": lambda *_: None,
    }
    driver = SimpleNamespace(
        get_current_target=lambda: GPUTarget("cuda", 90, 32),
        get_current_device=lambda: 0,
        get_current_stream=lambda *_: 0,
        get_device_interface=lambda: torch.cuda,
        get_active_torch_device=lambda: DEVICE,
        utils=SimpleNamespace(get_device_properties=lambda *_: _OF_DRIVER),
    )
    with ExitStack() as stack:
        # what torch remembers of the device is of this one inside, and of the machine's again behind
        asked = (utils.is_big_gpu, utils.get_gpu_type, utils.get_max_num_sms, DeviceProperties.create)
        for function in (*asked, *vars(torch.utils._triton).values()):
            if clear := getattr(function, "cache_clear", None):
                clear()
                stack.callback(clear)

        def put(target: object, name: str, value: object) -> None:
            if hasattr(target, name):
                stack.enter_context(mock.patch.object(target, name, value))

        for name, value in of_cuda.items():
            put(torch.cuda, name, value)
        for name, value in of_interface.items():
            put(CudaInterface, name, staticmethod(value))  # type: ignore[arg-type]
        put(CudaInterface, "device", lambda *_: nullcontext())
        put(CudaInterface.Worker, "get_device_properties", staticmethod(lambda *_: PROPERTIES))
        put(CudaInterface.Worker, "current_device", staticmethod(lambda: 0))
        put(triton_helpers, "set_driver_to_gpu", lambda: None)
        put(fake_tensor, "init_gpu_context", lambda _: None)
        put(type(triton.runtime.driver), "active", property(lambda _: driver))
        yield
