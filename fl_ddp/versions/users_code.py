"""Which version of a user's own code a run is of."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType

from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.registry import KINDS
from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError, is_users
from fl_ddp.versions.imported import imported_files
from fl_ddp.versions.scripts import of_main, statements_of_cells, statements_of_script

_IMPORTED: dict[str, tuple[object, str]] = {}
"""By a module's name, what each import of it makes anew, and the sha256 of its file when this process first asked."""


def users_code(config: Config, *, values: bool = True) -> dict[str, str]:
    """The sha256 of each file of a user's that a class of the run is in, or that such a file imports, by its path.

    Of a class of the script that is running it is that of the class and of what it refers to there, by the script's
    path and the class's name: a script is edited to go on with a run. So it is of one of a notebook's cells, by the
    class's name.

    Args:
        config: of the run.
        values: whether numbers and words count that such a class refers to, which the command line, say, has decided.
    """
    absolute = with_absolute_paths(config)
    paths = [*(getattr(absolute, kind).class_path for kind in KINDS), *absolute.measures]
    found = {place: content for path in paths for place, content in _version(path, values=values).items()}
    whole = (Path(place) for place in found if Path(place).is_file())  # not a class of a script
    for file in imported_files(whole):
        with suppress(OSError):  # whoever imports it is told
            found[str(file)] = file.read_bytes()
    return {place: hashlib.sha256(content).hexdigest() for place, content in sorted(found.items())}


def edited(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Files whose sha256 has become another one; not those that are there no more, or were not."""
    return [file for file, sha256 in before.items() if now.get(file, sha256) != sha256]


def code_held(config: Config) -> dict[str, str]:
    """The same, but of files that were edited since this process first asked what they said then, which it has."""
    code = users_code(config)
    for place, module in _held(code):
        spec, sha256 = _IMPORTED.setdefault(module.__name__, (module.__spec__, code[place]))
        if spec is module.__spec__:
            code[place] = sha256
    return code


def refuse_stale(config: Config) -> None:
    """Refuse files of a user's that were edited since this process first ran them: it has the old ones.

    Raises:
        ConfigError: there is one, or one that imports what was edited and imported anew, and was not itself.
    """
    code = users_code(config)
    held, found = [*_held(code)], dict[str, tuple[object, str]]()
    old = {place for place, module in held if _IMPORTED.get(module.__name__, ("", ""))[0] is module.__spec__}
    accepted = "a new process, or importlib.reload of its module, then of those that import it"
    for place, module in held:
        before = _IMPORTED.get(module.__name__)
        found[module.__name__] = module.__spec__, code[place]
        if not before or before[1] == code[place]:
            continue
        if place in old:
            what = "was edited since this process imported it, and what it said then would run"
            raise ConfigError(place, what, accepted)
        for other in old:
            if Path(place) in imported_files([Path(other)]):
                raise ConfigError(other, f"imports {Path(place).name}, as it was before that was edited", accepted)
    _IMPORTED.update(found)


def _held(code: Iterable[str]) -> list[tuple[str, ModuleType]]:
    """Files and the modules that this process has imported from them; a script's own is none."""
    places, found = {str(Path(place).resolve()): place for place in code}, list[tuple[str, ModuleType]]()
    for module in [*sys.modules.values()]:
        file = getattr(module, "__file__", None)
        if file and module.__name__ != "__main__" and is_users(str(Path(file).absolute())):
            found += [(places[real], module)] if (real := str(Path(file).resolve())) in places else []
    return found


def _version(class_path: str, *, values: bool) -> dict[str, bytes]:
    """Where a class is and what is there; nothing of one that is no user's, or whose text is not known."""
    file = class_path.rpartition(":")[0]
    if file:
        return {file: Path(file).read_bytes()} if Path(file).is_file() else {}
    module, _, name = class_path.rpartition(".")
    loaded = sys.modules.get(module)
    beginning = getattr(loaded, "__file__", None)
    if loaded and module == "__main__" and not beginning:
        return of_main(loaded, name, "<notebook>", statements_of_cells(), values=values)
    origin = str(Path(beginning or "<none>").absolute())
    if not loaded or not is_users(origin) or not Path(origin).is_file():
        return {}
    if module != "__main__":
        return {origin: Path(origin).read_bytes()}
    return of_main(loaded, name, origin, statements_of_script(origin), values=values)
