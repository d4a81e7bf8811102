"""Options that the documents name are those of a command, or of a program beside them."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from fl_ddp.config.registry import KINDS, known, options
from fl_ddp.config.settings import Config
from launch.executor import ExecutorOptions
from launch.reconstruct import ReconstructOptions
from launch.results import ResultsOptions
from launch.slurm.options import SlurmOptions
from launch.submit import SubmitOptions
from launch.sweeps.options import SweepOptions
from launch.tables.options import ReproduceOptions

ROOT = Path(__file__).parents[2]
DOCUMENTS = ("README.md", "CONTRIBUTING.md", "configs/README.md", "slurm/README.md", "docs/terms.md", "docs/study.md")
ANY = {"config", "help", "print_config", "version", *(f"{kind}.help" for kind in KINDS)}
BESIDE = {
    "nproc_per_node", "standalone", "rdzv_endpoint",  # torchrun
    "ntasks", "ntasks-per-node", "signal", "time", "batch", "cpus-per-task",  # Slurm
    "gpus", "gpu-bind", "gpus-per-node", "gpus-per-task",
    "logdir", "pdb", "check", "only",  # TensorBoard, pytest, ruff, plant.py
    "stream.by",  # of a class that CONTRIBUTING.md makes up
}  # fmt: skip


def of_commands() -> set[str]:
    """Every option that a command has, of whatever choices."""
    parts = {
        f"{kind}.{name}" for kind in KINDS for owner in known(kind).values() for name in options(kind, owner).by_name
    }
    launchers = (
        ExecutorOptions, ReconstructOptions, ResultsOptions, SlurmOptions, SubmitOptions, SweepOptions,
        ReproduceOptions,
    )  # fmt: skip
    return ANY | parts | {field.name for each in (Config, *launchers) for field in fields(each)}


@pytest.mark.parametrize("document", DOCUMENTS)
def test_options_of_the_documents_exist(document: str) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    named = set(re.findall(r"(?<![\w-])--([a-z][\w-]*(?:\.\w+)*)", text))
    assert named and named - of_commands() - BESIDE == set()
