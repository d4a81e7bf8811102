"""Which version of a user's own code a run is of."""

from __future__ import annotations

import ast
import hashlib
import linecache
import symtable
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from types import FunctionType, ModuleType

from fl_ddp.config.absolute_paths import with_absolute_paths
from fl_ddp.config.registry import KINDS
from fl_ddp.config.settings import Config
from fl_ddp.errors import ConfigError, is_users

_IMPORTED: dict[str, tuple[object, str]] = {}
"""By a module's name, what each import of it makes anew, and the sha256 of its file when this process first asked."""
_SCRIPTS: dict[str, str] = {}
"""What a script said when this process first asked, by its path."""
_PLAIN = (bool, int, float, str)
_ALL = "*"
"""What `from module import *` gives."""
_BLOCKS = ("body", "orelse", "finalbody")
"""Where Python's syntax tree has the statements inside of one."""


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
        return _of_main(loaded, name, "<notebook>", _statements_of_cells(), values=values)
    origin = str(Path(beginning or "<none>").absolute())
    if not loaded or not is_users(origin) or not Path(origin).is_file():
        return {}
    if module != "__main__":
        return {origin: Path(origin).read_bytes()}
    return _of_main(loaded, name, origin, _statements_of_script(origin), values=values)


def _of_main(
    loaded: ModuleType, name: str, origin: str, statements: Mapping[str, str], *, values: bool
) -> dict[str, bytes]:
    """What a class of a script or of cells says, with the statements that give what it refers to, and their files."""
    own, files, waiting = dict[str, str](), set[Path](), [_ALL, name]
    while waiting:
        each = waiting.pop()
        if each in own:
            continue
        value = vars(loaded).get(each)
        own[each] = _of_its_cell(each, value) or statements.get(each, "")
        if not own[name]:
            return {}
        waiting += _names_in(own[each])
        files |= {*_imported_in(own[each].encode(), Path(origin).absolute()), *_file_of(value)}
        own[each] += _value(value) if values else ""
    found = {f"{origin}:{name}": "".join(f"{each}: {own[each]}\n" for each in sorted(own)).encode()}
    for file in files:
        with suppress(OSError):  # whoever imports it is told
            found |= {str(file): file.read_bytes()} if is_users(str(file)) else {}
    return found


def _value(value: object) -> str:
    """A number, a word or some of them, or which class or function it is; nothing of what may change while it is."""
    if type(value) is tuple:
        return ", ".join(map(_value, value))
    if issubclass(type(value), type | FunctionType):
        return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}"
    with suppress(ValueError):  # a whole number of thousands of digits
        return repr(value) if type(value) in _PLAIN else ""
    return ""


def _names_in(source: str) -> list[str]:
    """What some code refers to that it has not itself: another thing of that name may stand where it is local."""
    try:
        found, waiting = list[str](), [symtable.symtable(source, "<code>", "exec")]
    except (SyntaxError, ValueError, RecursionError):
        return []
    while waiting:
        scope = waiting.pop()
        waiting += scope.get_children()
        outside = scope.get_type() in ("module", "class")
        found += [one.get_name() for one in scope.get_symbols() if one.is_referenced() and (outside or one.is_global())]
    return found


def _file_of(made: object) -> list[Path]:
    """The file that a module, a class or a function is from, if it is one."""
    module = made
    if issubclass(type(made), type | FunctionType):  # what an object says of its class may be anything
        module = sys.modules.get(getattr(made, "__module__", None) or "")
    if type(module) is not ModuleType or module.__name__ == "__main__":
        return []
    place = vars(module).get("__file__")
    return [Path(place).absolute()] if isinstance(place, str) and Path(place).is_file() else []


def _statements_of_script(file: str) -> Mapping[str, str]:
    """As the script said when this process first asked."""
    if file not in _SCRIPTS:
        try:
            _SCRIPTS[file] = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            _SCRIPTS[file] = ""
    return _statements(_SCRIPTS[file])


def _statements_of_cells() -> Mapping[str, str]:
    """Of a notebook's cells, of which there are no files; the last one that gives a name counts."""
    found: dict[str, str] = {}
    for cell in [*linecache.cache]:
        if not Path(cell).is_file():
            found |= _statements("".join(linecache.getlines(cell)))
    return found


def _of_its_cell(name: str, made: object) -> str:
    """What the cell says that a class or function is from, which may have been run again, before later ones' order."""
    functions = [*vars(made).values()] if issubclass(type(made), type) else [made]
    cells = [each.__code__.co_filename for each in functions if type(each) is FunctionType]
    texts = ("".join(linecache.getlines(cell)) for cell in dict.fromkeys(cells) if not Path(cell).is_file())
    return next(filter(None, (_statements(text).get(name, "") for text in texts)), "")


@lru_cache(maxsize=4096)
def _statements(text: str) -> Mapping[str, str]:
    """The statements of a script or cell by the names that they give, wherever in its blocks; nothing if it is none."""
    try:
        waiting = [*reversed(ast.parse(text).body)]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return {}
    found, made, calls = dict[str, str](), set[str](), list[tuple[str, str]]()
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names = [node.name]
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names = [each.asname or each.name.partition(".")[0] for each in node.names]
        else:
            waiting += reversed(_inside(node))
            names = _given_by(node)
            made.update(names)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call | ast.Await):
                calls += [(each, _said(node, text)) for each in _bases(node.value)]
        said = _said(node, text) if names else ""
        for name in dict.fromkeys(names):
            found[name] = f"{found.get(name, '')}{said}\n"
    for name, said in calls:  # of what the script has made; a library's are for all that goes on
        if name in made:
            found[name] += f"{said}\n"
    return found


def _inside(node: ast.stmt) -> list[ast.stmt]:
    """The statements in the blocks of one."""
    parts = [node, *getattr(node, "handlers", []), *getattr(node, "cases", [])]
    return [each for part in parts for block in _BLOCKS for each in getattr(part, block, [])]


def _given_by(node: ast.stmt) -> list[str]:
    """Names that a statement itself gives, or gives something to; not those in its blocks."""
    heads = [getattr(node, part, []) for part in ("target", "targets")]
    heads += [each.optional_vars for each in getattr(node, "items", []) if each.optional_vars]
    names = [name for head in heads for each in (head if isinstance(head, list) else [head]) for name in _bases(each)]
    parts = [getattr(node, part, None) for part in ("value", "test", "iter", "subject")]
    inner = (each for part in parts if part for each in ast.walk(part) if isinstance(each, ast.NamedExpr))
    return [*names, *(each.target.id for each in inner)]


def _bases(node: ast.expr) -> list[str]:
    """What a target or a call begins with: x of x.y[z], and both of x, y."""
    if isinstance(node, ast.Tuple | ast.List):
        return [name for each in node.elts for name in _bases(each)]
    if isinstance(node, ast.Attribute | ast.Subscript | ast.Starred | ast.Await):
        return _bases(node.value)
    if isinstance(node, ast.Call):
        return _bases(node.func) if isinstance(node.func, ast.Attribute) else []
    return [node.id] if isinstance(node, ast.Name) else []


def _said(node: ast.stmt, text: str) -> str:
    """A statement without its blocks, in Python's own words; as it stands where it has none for it."""
    alone: ast.stmt = node
    if isinstance(node, ast.For):
        alone = ast.For(node.target, node.iter, [ast.Pass()], [], lineno=0)
    elif isinstance(node, ast.With):
        alone = ast.With(node.items, [ast.Pass()], lineno=0)
    elif isinstance(node, ast.If | ast.While):
        alone = ast.Expr(node.test)
    elif isinstance(node, ast.Match):
        alone = ast.Expr(node.subject)
    try:
        return ast.unparse(alone)
    except (ValueError, RecursionError):  # of numbers of thousands of digits, and sums of hundreds
        return ast.get_source_segment(text, node) or ""


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
    with suppress(OSError):  # whoever imports it is told
        yield from _imported_in(file.read_bytes(), file)


def _imported_in(text: bytes, file: Path) -> Iterator[Path]:
    """What some of a file's text imports that lies beside it."""
    for level, names in _imports_in(text):
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
