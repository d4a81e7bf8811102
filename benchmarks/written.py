"""What a benchmark leaves: its numbers, the command that gave them, and the machine they are of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from fl_ddp.results.provenance import provenance


def write_results(path: Path, results: Mapping[str, object]) -> None:
    """Write the numbers of this process's command line as JSON."""
    content = {"results": results, "environment": provenance()}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2) + "\n")
