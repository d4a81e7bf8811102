"""The public face: what users write against it runs from any folder, and its names do not go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from launching import SMALL, numbers, options, simulated

import fl_ddp
from fl_ddp import api

PROMISED = """
Arrays Batch BelowOne ClassGroups ConfigError Count CountOrZero Counts Dataset FedAvg FlatModel GlobalModel Group
Indices Info InterruptedRunError Label Leaves NonNegative Norm Optimizer Origin Owners Partition Permuted Plan
Positive Quadratic Rates Real Record Reduction Rotated Round RunError Seed Sensitivity Share Static Stream Tensors
Term Total Trained UnitInterval Upload Whole alike among best_of_class by_tensor_norm class_counts cross_entropy
fisher importance_sum inputs_at is_shared labels load mean_over normal of_each of_largest one_hot owners_of parts_of
shared_inputs simulate sum_over task_classes uniform
"""
"""All names of the face: some may be added, none may go."""

MINE = """
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from torch import Tensor

from fl_ddp.api import (
    Arrays, Batch, Dataset, FedAvg, Indices, Leaves, Origin, Partition, Quadratic, Real, Tensors, cross_entropy,
    mean_over, parts_of,
)

BelowTen = Annotated[float, Real(least=0, below=10)]


@dataclass(frozen=True)
class Held(FedAvg):
    \"\"\"FedProx by a quadratic prior.\"\"\"

    mu: BelowTen = 0.01
    smoothing: BelowTen = 0.0

    neutral: ClassVar[Mapping[str, float] | None] = {"mu": 0.0}

    def loss(self, theta: Leaves, batch: Batch, server: Tensors, mine: Tensors) -> Tensor:
        logits = self.model.logits(theta, batch.x, batch.key)
        even = logits.logsumexp(-1) - logits.mean(-1)
        return mean_over(batch.mask, cross_entropy(logits, batch.y) + self.smoothing * even)

    def priors(self, server: Tensors, mine: Tensors) -> tuple[Quadratic, ...]:
        return (Quadratic(self.mu, server["theta"]),)


@dataclass(frozen=True)
class Blobs(Dataset):
    \"\"\"Three clouds of points.\"\"\"

    def read(self) -> Arrays:
        random = np.random.default_rng(0)
        y = np.arange(240) % 3
        x = (random.normal(size=(240, 4)) + 2 * np.eye(3, 4)[y]).astype(np.float32)
        return Arrays(x[:180], y[:180], x[180:], y[180:], ("a", "b", "c"))


@dataclass(frozen=True)
class RoundRobin(Partition):
    \"\"\"One sample after the other.\"\"\"

    def divide(self, labels, num_clients, rng):
        return parts_of(np.arange(len(labels)) % num_clients, num_clients)

    def local_test(self, origin: Origin, size: int) -> list[Indices] | None:
        return [np.arange(k, size, 12) for k in range(12)] if origin == "test" else None
"""


def test_the_face_is_what_is_promised_and_has_it() -> None:
    assert PROMISED.split() == api.__all__
    assert all(getattr(api, name) is not None for name in api.__all__)


@pytest.mark.slow
def test_a_users_file_runs_outside_the_checkout_against_the_face_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    given = {**SMALL, "data": "mine.py:Blobs", "partition": "mine.py:RoundRobin", "method": "mine.py:Held"}
    own_tests = {"local_test": 0.2, "local_test_from": "test"}
    words = options({**given, **own_tests, "method.mu": 0.5, "method.smoothing": 0.1, "out": "runs"})
    done = subprocess.run(
        [sys.executable, "-m", "fl_ddp.main", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(fl_ddp.__file__).parents[1]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    division = json.loads((tmp_path / "runs" / "run" / "partition.json").read_text())
    assert division["clients"][1] == list(np.arange(1, 180, 12))
    assert division["local_test"][1] == list(np.arange(1, 60, 12))


def test_the_world_of_contributing_is_run_as_it_stands_there(tmp_path: Path) -> None:
    page = (Path(fl_ddp.__file__).parents[1] / "CONTRIBUTING.md").read_text()
    example = next(block for block in page.split("```python\n")[1:] if "(Dataset)" in block).partition("```")[0]
    (tmp_path / "world.py").write_text(example)
    names = {"data": "Moons", "partition": "Halves", "stream": "Drifting"}
    chosen = {kind: f"{tmp_path / 'world.py'}:{name}" for kind, name in names.items()}
    run = simulated({**SMALL, **chosen, "stream.by": 2.0, "stream.task_rounds": 2, "rounds": 6}, tmp_path)
    summary = json.loads((run / "summary.json").read_text())
    assert len(summary["task_accuracy"]) == 4 and summary["class_accuracy"].keys() == {"upper", "lower"}
    (first, _), (second, _), _ = fl_ddp.load(run).tests
    moved = second - first
    assert moved[0].norm().item() == pytest.approx(2, rel=1e-5) and (moved - moved[0]).abs().max() < 1e-5
    parts = json.loads((run / "partition.json").read_text())["counts"]
    assert all(max(each, key=each.__getitem__) == ("upper" if i < 6 else "lower") for i, each in enumerate(parts))


@pytest.mark.slow
def test_the_example_of_contributing_is_fedprox(tmp_path: Path) -> None:
    """The code that CONTRIBUTING.md shows is run as it stands there, and ends with FedProx's bits."""
    page = (Path(fl_ddp.__file__).parents[1] / "CONTRIBUTING.md").read_text()
    example = next(block for block in page.split("```python\n")[1:] if "class " in block).partition("```")[0]
    assert "from fl_ddp.api import" in example
    (tmp_path / "example.py").write_text(example)
    name = example.partition("class ")[2].partition("(")[0]
    own = simulated({**SMALL, "method": f"{tmp_path / 'example.py'}:{name}", "method.mu": 0.3}, tmp_path / "own")
    shipped = simulated({**SMALL, "method": "FedProx", "method.mu": 0.3}, tmp_path / "shipped")
    assert numbers(own) == numbers(shipped)
