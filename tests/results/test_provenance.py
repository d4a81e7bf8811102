"""What result files say of where they come from."""

from __future__ import annotations

import sys

import pytest
import torch

from fl_ddp.arithmetic.repeatable import repeatable
from fl_ddp.config.settings import Config
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.results.provenance import numerics, provenance


def test_the_command_is_as_it_was_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["/somebody/bin/python3", "-m", "fl_ddp.main", "--name", "two words"])
    found = provenance()
    assert found["command"] == "python -m fl_ddp.main --name 'two words'"
    assert str(found["date"]).endswith("+00:00") and found["torch"] and found["cpu"]


def test_versions_of_cuda_are_numerics_of_a_gpu_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    config = Config(precision="tf32")
    on_cpu = numerics(config, 5, Ranks(0, 1, torch.device("cpu")))
    with repeatable("cuda", tf32=True):
        on_gpu = numerics(config, 5, Ranks(0, 1, torch.device("cuda")))
    assert on_gpu.keys() - on_cpu.keys() == {
        "deterministic", "cuda", "cudnn", "triton", "fp_fusion", "convolution",
    }  # fmt: skip
    assert (on_gpu["device"], on_gpu["precision"], on_gpu["deterministic"]) == ("a GPU", "tf32", True)
