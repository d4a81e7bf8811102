"""What a benchmark leaves: its numbers, the command that gave them, and the machine they are of."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from fl_ddp.results.summary import versions_and_hardware


def write_results(path: Path, results: Mapping[str, object]) -> None:
    """Write the numbers of this process's command line as JSON."""
    content = {"command": " ".join(sys.argv), "results": results, "environment": versions_and_hardware()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
