"""What torch says of a GPU or of memory is told in one line, and its failures are no lost ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fl_ddp.errors import ConfigError, DeviceError, RankLostError, RunError
from fl_ddp.host.device_errors import device_of, gpu_failure, of_device, usable_gpus
from fl_ddp.results.provenance import provenance

ASKED = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.72 GiB of which 3.1 GiB ..."
ILLEGAL = "CUDA error: an illegal memory access was encountered\nCompile with `TORCH_USE_CUDA_DSA` to enable ..."
OF_NCCL = "NCCL error in: NCCLUtils.cpp:94, unhandled cuda error (run with NCCL_DEBUG=INFO), NCCL version 2.27\nnccl"


def test_a_gpu_that_torch_cannot_use_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """One whose driver is too old for torch: NVML, which needs no CUDA, sees it all the same."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert usable_gpus() == 0 and provenance()["gpus"] == []
    assert device_of("auto", 0, 2) == device_of("cpu", 0, 2) == torch.device("cpu")
    with pytest.raises(ConfigError, match="--device: cuda, but torch sees no GPU on this machine"):
        device_of("cuda", 0, 1)


def test_a_rank_has_the_gpu_of_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def set_device(number: int) -> None:
        if number:
            raise torch.AcceleratorError(
                "CUDA error: CUDA-capable device(s) is/are busy or unavailable\nSearch for ..."
            )

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", set_device)
    assert device_of("auto", 0, 2) == torch.device("cuda", 0) and device_of("cpu", 1, 2) == torch.device("cpu")
    with pytest.raises(ConfigError, match=r"--device: GPU 1 cannot be used \(.*busy or unavailable\); accepted: cpu"):
        device_of("cuda", 1, 2)
    with pytest.raises(ConfigError, match=r"--nproc_per_node: 3 ranks on this machine, but 2 GPU\(s\)"):
        device_of("auto", 0, 3)


@pytest.mark.parametrize(("lanes", "advice"), [
    (10, "a new run with --lanes 5 instead of 10 needs less"),
    (3, "a new run with --lanes 1 instead of 3 needs less"),
    (1, r"there is one client at a time already \(--lanes 1\); a smaller --batch_size or --model needs less"),
    (None, "the data and one model alone do not fit"),
])  # fmt: skip
def test_too_little_memory_of_a_gpu_names_the_next_smaller_number_of_lanes(lanes: int | None, advice: str) -> None:
    told = of_device(torch.OutOfMemoryError(ASKED), lanes)
    assert isinstance(told, RunError) and not isinstance(told, DeviceError)
    with pytest.raises(RunError, match=rf"the GPU's memory is too small for 20.00 GiB more; {advice}"):
        raise told


def test_too_little_memory_of_the_machine_is_told_alike() -> None:
    text = "[enforce fail at alloc_cpu.cpp:127] data. DefaultCPUAllocator: can't allocate memory: you tried ..."
    assert str(of_device(RuntimeError(text), 4)).startswith("this machine's memory is too small for what the run needs")
    assert str(of_device(MemoryError(), 4)).endswith("--lanes 2 instead of 4 needs less")
    pinned = torch.AcceleratorError("CUDA error: out of memory\nCUDA kernel errors might be ...")
    assert gpu_failure(pinned) is None and "this machine's memory is too small" in str(of_device(pinned, 4))


@pytest.mark.parametrize("text", [
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_ALLOC_FAILED", "Triton Error [CUDA]: out of memory",
])  # fmt: skip
def test_libraries_that_ask_for_a_gpus_memory_themselves_say_so_in_other_words(text: str) -> None:
    assert gpu_failure(RuntimeError(text)) is None
    told = str(of_device(RuntimeError(text), 10))
    assert told.startswith("the GPU's memory is too small for what the run needs; a new run with --lanes 5 instead of")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (torch.AcceleratorError(ILLEGAL), "CUDA error: an illegal memory access was encountered"),
        (RuntimeError(f"NCCL communicator was aborted\n{ILLEGAL}"), "CUDA error: an illegal memory access"),
        (RuntimeError(OF_NCCL), "unhandled cuda error"),
    ],
)
def test_a_failure_of_a_gpu_is_told_as_one(error: RuntimeError, words: str) -> None:
    told = gpu_failure(error)
    assert told is not None and told.exit_code == 1 and not isinstance(told, RankLostError)
    assert str(told).startswith("this rank's GPU failed: ") and words in str(told) and "\n" not in str(told)
    assert gpu_failure(told) is told is of_device(told, 3)


@pytest.mark.parametrize("name", ["adaptive_avg_pool2d_backward_cuda", "median CUDA with indices output"])
def test_a_layer_without_a_repeatable_form_is_named(name: str) -> None:
    text = f"{name} does not have a deterministic implementation, but you set 'torch.use_det"
    told = str(of_device(RuntimeError(text), 3))
    assert told.startswith(f"{name}, which the model, the method or a measure needs") and told.endswith(
        "or --device cpu"
    )


def test_whoever_needs_what_has_no_repeatable_form_is_named_by_the_line(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "def measure():\n    raise RuntimeError('kthvalue CUDA does not have a deterministic implementation')\n"
    )
    names: dict[str, Callable[[], None]] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(RuntimeError) as error:
        names["measure"]()
    assert str(of_device(error.value, 3)).startswith("kthvalue CUDA, which mine.py:2 needs, has no form on a GPU")


@pytest.mark.parametrize("error", [
    RuntimeError("Connection closed by peer"), ValueError("CUDA error"), RuntimeError("mat1 and mat2 shapes"),
])  # fmt: skip
def test_other_errors_are_none_of_the_devices(error: Exception) -> None:
    assert gpu_failure(error) is None and of_device(error, 3) is None
