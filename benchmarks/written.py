"""What a benchmark leaves: its numbers, the command that gave them, and the machine they are of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from fl_ddp.host.atomic_file import replacing
from fl_ddp.results.provenance import provenance


def write_results(path: Path, results: Mapping[str, object]) -> None:
    """Write the numbers of this process's command line as JSON; whoever stops it has those of before, or these."""
    content = {"results": results, "environment": provenance()}
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as file:
        file.write((json.dumps(content, indent=2) + "\n").encode())
