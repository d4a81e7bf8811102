"""Whether data are the same, by where they lie: what launchers know of them, who read none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from fl_ddp.errors import ConfigError
from fl_ddp.reading.homes import users_path


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
    """Whether two roots are one folder, maybe one that has moved: it has its name yet, and is gone from one place."""
    there, here = _absolute(one), _absolute(other)
    if _is_there(there) and _is_there(here):
        return there.samefile(here)
    return there == here or (_is_there(there) != _is_there(here) and there.name == here.name)


def by_root(roots: Iterable[str]) -> Mapping[str, str]:
    """One root for all that are the same; a gone one is that of its name which is there, if there is but one."""
    every, known = dict.fromkeys(roots), dict[str, str]()
    there = [each for each in every if _is_there(_absolute(each))]
    for each in there:
        known[each] = next((one for one in dict.fromkeys(known.values()) if same_root(one, each)), each)
    for each in every.keys() - there:
        alike = [one for one in dict.fromkeys(known[one] for one in there) if same_root(one, each)]
        known[each] = alike[0] if len(alike) == 1 else each
    return known


def _absolute(root: str) -> Path:
    try:
        return users_path("--data.root", root).absolute()
    except ConfigError:  # of a user who is not known here
        return Path(root)


def _is_there(folder: Path) -> bool:
    """Whether it can be seen to be there; of what nobody may look at, or has too long a name, no."""
    with suppress(OSError):
        return folder.exists()
    return False
