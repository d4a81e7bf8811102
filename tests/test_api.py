"""The public face: what users write against it runs from any folder, and its names do not go."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from launching import SMALL, numbers, options, simulated

import fl_ddp
from fl_ddp import api

PROMISED = """
Arrays Batch BelowOne ConfigError Count CountOrZero Counts Dataset FedAvg FlatModel Group Indices Info
InterruptedRunError Label Leaves NonNegative Norm Partition Plan Positive Quadratic Reduction RunError Seed
Sensitivity Share Tensors Term Total Trained UnitInterval Upload by_tensor_norm fisher importance_sum of_largest
parts_of simulate uniform
"""
"""Names may be added here, none may go."""

MINE = """
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fl_ddp.api import Arrays, Dataset, FedAvg, NonNegative, Partition, Quadratic, Tensors, parts_of


@dataclass(frozen=True)
class Held(FedAvg):
    \"\"\"FedProx by a quadratic prior.\"\"\"

    mu: NonNegative = 0.01

    neutral: ClassVar[Mapping[str, float] | None] = {"mu": 0.0}

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
"""


def test_no_promised_name_is_gone_and_the_list_is_the_faces() -> None:
    assert set(PROMISED.split()) <= set(api.__all__)
    assert all(getattr(api, name) is not None for name in api.__all__)


def test_a_users_file_runs_outside_the_checkout_against_the_face_alone(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(MINE)
    given = {**SMALL, "data": "mine.py:Blobs", "partition": "mine.py:RoundRobin", "method": "mine.py:Held"}
    words = options({**given, "method.mu": 0.5, "out": "runs"})
    done = subprocess.run(
        [sys.executable, "-m", "fl_ddp.main", *words],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(fl_ddp.__file__).parents[1]), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    clients = json.loads((tmp_path / "runs" / "run" / "partition.json").read_text())["clients"]
    assert clients[1] == list(np.arange(1, 180, 12))


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
