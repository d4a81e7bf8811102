"""Which version of a user's own code a run is of."""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import symtable
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import is_dataclass
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType

from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.registry import KINDS
from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError, is_users

_IMPORTED: dict[str, tuple[object, str]] = {}
"""By a module's name, what each import of it makes anew, and the sha256 of its file when this process first asked."""


def users_code(config: Config) -> dict[str, str]:
    """The sha256 of each file of a user's that a class of the run is in, or that such a file imports, by its path.

    Of a class of the script that is running it is that of the class and of what it refers to there, by the script's
    path and the class's name: a script is edited to go on with a run. So it is of one of a notebook's cells, by the
    class's name.
    """
    absolute = with_absolute_paths(config)
    paths = [*(getattr(absolute, kind).class_path for kind in KINDS), *absolute.measures]
    found = {place: content for path in paths for place, content in _version(path).items()}
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


def _version(class_path: str) -> dict[str, bytes]:
    """Where a class is and what is there; nothing of one that is no user's, or whose text is not known."""
    file = class_path.rpartition(":")[0]
    if file:
        return {file: Path(file).read_bytes()} if Path(file).is_file() else {}
    module, _, name = class_path.rpartition(".")
    loaded = sys.modules.get(module)
    beginning = getattr(loaded, "__file__", None)
    if loaded and module == "__main__" and not beginning:
        return _of_main(loaded, name, "<notebook>", _text)
    origin = str(Path(beginning or "<none>").absolute())
    if not loaded or not is_users(origin) or not Path(origin).is_file():
        return {}
    if module != "__main__":
        return {origin: Path(origin).read_bytes()}
    return _of_main(loaded, name, origin, _source)


def _of_main(loaded: ModuleType, name: str, origin: str, text_of: Callable[[object], str]) -> dict[str, bytes]:
    """What a class of a script or of cells says, with all that it refers to: more of it, its constants, and files."""
    own, files, waiting = dict[str, str](), dict[str, bytes](), [name]
    while waiting:
        each = waiting.pop()
        if each in own or each not in vars(loaded):
            continue
        value = vars(loaded)[each]
        kind = value if isinstance(value, type | FunctionType | ModuleType) else type(value)
        if getattr(kind, "__module__", None) == loaded.__name__:
            own[each] = text_of(kind)
            waiting += _names_in(own[each])
        elif file := _file_of(kind):
            files[str(file)] = file.read_bytes()
        if kind is type(value):
            with suppress(RecursionError):
                own[each] = own.get(each, "") + _constant(value)
    if not own.get(name):
        return {}
    return files | {f"{origin}:{name}": "".join(f"{each}: {own[each]}\n" for each in sorted(own)).encode()}


def _names_in(source: str) -> list[str]:
    """What some code refers to that it has not itself: another thing of that name may stand where it is local."""
    try:
        found, waiting = list[str](), [symtable.symtable(textwrap.dedent(source), "<code>", "exec")]
    except SyntaxError:
        return []
    while waiting:
        scope = waiting.pop()
        waiting += scope.get_children()
        outside = scope.get_type() == "module"
        found += [one.get_name() for one in scope.get_symbols() if one.is_referenced() and (outside or one.is_global())]
    return found


def _file_of(made: type | FunctionType | ModuleType) -> Path | None:
    """The user's file that something is from."""
    module = made if isinstance(made, ModuleType) else sys.modules.get(made.__module__)
    place = Path(getattr(module, "__file__", None) or "<none>").absolute()
    return place if is_users(str(place)) and place.is_file() else None


def _constant(value: object) -> str:
    """A number, a word, or what holds such; nothing of anything else, which may look otherwise in each process."""
    if isinstance(value, int | float | complex | str | bytes | None):
        return repr(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_constant(key)}: {_constant(each)}' for key, each in value.items())}}}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(_constant, value)))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_constant, value))}]"
    return _constant(vars(value)) if is_dataclass(value) and not isinstance(value, type) else ""


def _source(made: object) -> str:
    """What a class or function of a script says; nothing if other code has made it, or the script has changed."""
    assert isinstance(made, type | FunctionType)
    try:
        return inspect.getsource(made)
    except (OSError, TypeError):
        return ""


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
