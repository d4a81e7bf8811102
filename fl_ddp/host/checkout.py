"""Which commit the code is of."""

from __future__ import annotations

import subprocess
from pathlib import Path


def commit(package: Path = Path(__file__).parents[1]) -> str | None:
    """The commit that a package's code is of, with -dirty where files were edited since; None outside a checkout."""
    tracked = ["ls-files", "--error-unmatch", "__init__.py"]
    if _git(package, *tracked) is None:
        return None
    return _git(package, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(folder: Path, *words: str) -> str | None:
    """What git prints; None if it fails, or is not there."""
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
