"""Starts the script beside it in Triton's interpreter, for which Triton must be imported anew."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def interpreted() -> dict[str, float]:
    """Errors that interpreted_dense.py finds, by case: of kernels beside a CPU in float64, and beside themselves."""
    support = HERE.parent
    paths = os.pathsep.join([str(support / "devices"), str(support.parents[1])])
    environment = os.environ | {"TRITON_INTERPRET": "1", "PYTHONPATH": paths}
    command = [sys.executable, str(HERE / "interpreted_dense.py")]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found
