"""Where a number comes from: what every file of results records beside it."""

from __future__ import annotations

import os
import platform
import shlex
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

import torch

from fl_ddp.arithmetic.products import products_by_place
from fl_ddp.arithmetic.repeatable import versions_on_gpu
from fl_ddp.config.settings import Config
from fl_ddp.host.checkout import commit
from fl_ddp.host.device_errors import usable_gpus
from fl_ddp.host.environment import usable_cores
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.version import __version__


def provenance() -> dict[str, object]:
    """Command, date, commit, versions and hardware of this process."""
    return {
        "command": shlex.join(["python", *sys.orig_argv[1:]]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "fl_ddp": __version__,
        "commit": commit(),
        "python": platform.python_version(),
        **{package: version(package) for package in ("torch", "torchvision", "numpy", "scikit-learn", "safetensors")},
        "cuda": torch.version.cuda,
        "platform": platform.platform(),
        "cpu": cpu_model(),
        "cores": usable_cores(),
        "threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(usable_gpus())],
    }


def numerics(config: Config, lanes: int, ranks: Ranks) -> dict[str, object]:
    """What decides a run's bits beside data, method and seed."""
    return {
        "lanes": lanes,
        "device": torch.cuda.get_device_name() if ranks.device.type == "cuda" else "cpu",
        "cpu": cpu_model(),
        "torch": torch.__version__,
        "compile": config.compile,
        "precision": config.precision,
        "mkl_cbwr": None if products_by_place(ranks.device.type) else os.environ.get("MKL_CBWR"),
        **({"convolution": config.convolution} if ranks.device.type == "cuda" else {}),
        "reduction": config.reduction,
        **(versions_on_gpu() if ranks.device.type == "cuda" else {}),
    }


def cpu_model() -> str:
    """The processor's name."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
