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
PAGES = sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md") if "template" not in path.name)
MEASURED = {"docs/gpu.md", "docs/results.md", "docs/compared.md"}
"""Pages of numbers, whose options are other programs', too, or none."""
DOCUMENTS = (
    *("README.md", "CONTRIBUTING.md", "configs/README.md", "slurm/README.md"),
    *(page for page in PAGES if page not in MEASURED),
)
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


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub makes them."""
    titles = re.findall(r"(?m)^#+ (.*)$", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("document", sorted({*DOCUMENTS, *PAGES}))
def test_links_lead_to_a_file_and_a_heading(document: str) -> None:
    page = ROOT / document
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if not re.match(r"https?://", link):
            place, _, heading = link.partition("#")
            target = (page.parent / place).resolve() if place else page
            assert target.exists(), link
            assert not heading or heading in anchors(target), link


def test_every_page_can_be_found_from_the_readme() -> None:
    linked = (ROOT / "README.md").read_text(encoding="utf-8")
    assert [page for page in PAGES if page not in linked] == []
