"""Which version of a user's own code a run is of."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.registry import KINDS
from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError, is_users

_IMPORTED: dict[str, tuple[object, str]] = {}
"""By a module's name, what each import of it makes anew, and the sha256 of its file when this process first asked."""


def users_code(config: Config) -> dict[str, str]:
    """The sha256 of each file of a user's that a class of the run is in, or that such a file imports, by its path.

    Of a class of the script that is running it is that of the class alone, by the script's path and the class's name:
    a script is edited to go on with a run. So it is of one of a notebook's cells, by the class's name.
    """
    absolute = with_absolute_paths(config)
    paths = [*(getattr(absolute, kind).class_path for kind in KINDS), *absolute.measures]
    found = dict(filter(None, map(_version, paths)))
    whole = (Path(place) for place in found if Path(place).is_file())  # not a class of a script
    for file in imported_files(whole):
        with suppress(OSError):  # whoever imports it is told
            found[str(file)] = file.read_bytes()
    return {place: hashlib.sha256(content).hexdigest() for place, content in sorted(found.items())}


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


def _version(class_path: str) -> tuple[str, bytes] | None:
    """Where a class is and what is there; nothing of one that is no user's, or whose text is not known."""
    file = class_path.rpartition(":")[0]
    if file:
        return (file, Path(file).read_bytes()) if Path(file).is_file() else None
    module, _, name = class_path.rpartition(".")
    loaded = sys.modules.get(module)
    beginning = getattr(loaded, "__file__", None)
    if module == "__main__" and not beginning:
        text = _text(getattr(loaded, name, None))
        return (f"<notebook>:{name}", text.encode()) if text else None
    origin = str(Path(beginning or "<none>").absolute())
    if not is_users(origin) or not Path(origin).is_file():
        return None
    if module != "__main__":
        return origin, Path(origin).read_bytes()
    try:
        source = inspect.getsource(getattr(loaded, name))
    except (OSError, TypeError):  # made by other code, or the script was edited while it runs
        return None
    return f"{origin}:{name}", source.encode()


def _text(made: object) -> str:
    """What a notebook's class or function says, of which there is no file; nothing if that is unknown."""
    name, functions = getattr(made, "__name__", ""), [*vars(made).values()] if inspect.isclass(made) else [made]
    cells = {each.__code__.co_filename for each in functions if inspect.isfunction(each)} - {"<string>"}
    for cell in cells or [each for each in linecache.cache if not Path(each).is_file()]:  # as of a class of constants
        lines = linecache.getlines(cell)
        with suppress(SyntaxError):
            for node in reversed(ast.parse("".join(lines)).body):  # the last one counts
                if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
                    return "".join(lines[min(at.lineno for at in [*node.decorator_list, node]) - 1 : node.end_lineno])
    return ""


def imported_files(files: Iterable[Path]) -> set[Path]:
    """Files of the user's that lie beside some, or in packages there, and are imported by them, or by each other.

    As their text has it, wherever in it: nothing is imported to know it.
    """
    found, waiting = set[Path](), [*files]
    while waiting:
        new = {file for file in _imported_by(waiting.pop()) if is_users(str(file.absolute()))} - found
        found |= new
        waiting += new
    return found


def _imported_by(file: Path) -> Iterator[Path]:
    try:
        imports = _imports_in(file.read_bytes())
    except OSError:  # whoever imports it is told
        return
    for level, names in imports:
        if level:
            yield from _beside(file.parents[:level][-1], names)
        elif names[0] not in sys.stdlib_module_names:  # which come first, whatever lies in the folder
            yield from _beside(_root(file), names)


@lru_cache
def _imports_in(text: bytes) -> list[tuple[int, list[str]]]:
    """Of each import in a file how many folders it goes up, and its names; launchers ask for each of many runs."""
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # as above
        return []
    found: list[tuple[int, list[str]]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(0, each.name.split(".")) for each in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            found += [(node.level, [*module, each.name]) for each in node.names]
    return found


def _root(file: Path) -> Path:
    """The folder that holds a file, or the package that it is in."""
    folder = file.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _beside(folder: Path, names: list[str]) -> Iterator[Path]:
    """The files of a module and of the packages around it; its last names may be of something in it."""
    for name in names:
        for file in (folder / f"{name}.py", folder / name / "__init__.py"):
            if file.is_file():
                yield file
        folder /= name
