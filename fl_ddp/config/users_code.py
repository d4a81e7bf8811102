"""Which version of a user's own code a run is of."""

from __future__ import annotations

import hashlib
import inspect
import sys
from pathlib import Path

from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.registry import KINDS
from fl_ddp.config.settings import Config
from fl_ddp.errors import is_users


def users_code(config: Config) -> dict[str, str]:
    """The sha256 of each file of a user's that a class of the run is in, by its path.

    Of a class of the script that is running it is that of the class alone, by the script's path and the class's name:
    a script is edited to go on with a run.
    """
    absolute = with_absolute_paths(config)
    found = dict(filter(None, (_version(getattr(absolute, kind).class_path) for kind in KINDS)))
    return {place: hashlib.sha256(content).hexdigest() for place, content in sorted(found.items())}


def _version(class_path: str) -> tuple[str, bytes] | None:
    """Where a class is and what is there; nothing of one that is no user's, or whose text is not known."""
    file = class_path.rpartition(":")[0]
    if file:
        return (file, Path(file).read_bytes()) if Path(file).is_file() else None
    module, _, name = class_path.rpartition(".")
    loaded = sys.modules.get(module)
    origin = str(Path(getattr(loaded, "__file__", None) or "<none>").absolute())
    if not is_users(origin) or not Path(origin).is_file():
        return None
    if module != "__main__":
        return origin, Path(origin).read_bytes()
    try:
        source = inspect.getsource(getattr(loaded, name))
    except (OSError, TypeError):  # made by other code, or the script was edited while it runs
        return None
    return f"{origin}:{name}", source.encode()
