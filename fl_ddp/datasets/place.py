"""Whether data are the same, by where they lie: what launchers know of them, who read none."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def telling_root(settings: Mapping[str, object]) -> str | None:
    """The root of a run's data if it says which data they are; None if it is a mere place.

    Images in folders are told by it, and what a class of the user's reads; other classes of the package know their
    files, wherever they are.

    Args:
        settings: of the run, by key; data is the import path of the class.
    """
    class_path, root = str(settings["data"]), settings.get("data.root")
    told = class_path.endswith(".ImageFolder") or not class_path.startswith("fl_ddp.datasets.")
    return str(root) if told and root is not None else None


def same_root(one: str, other: str) -> bool:
    """Whether two roots are one folder, maybe one that has moved: it has its name yet, and is gone from a place."""
    there, here = Path(one).expanduser(), Path(other).expanduser()
    if there.exists() and here.exists():
        return there.samefile(here)
    return there.absolute().name == here.absolute().name
