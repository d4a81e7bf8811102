"""What a class of a script, or of a notebook's cells, says, with all that it refers to there."""

from __future__ import annotations

import linecache
import symtable
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import FunctionType, ModuleType

from fl_ddp.errors import is_users
from fl_ddp.versions.imported import imported_in
from fl_ddp.versions.statements import statements_in

_SCRIPTS: dict[str, str] = {}
"""What a script said when this process first asked, by its path."""
_PLAIN = (bool, int, float, str)
"""What a command line decides; what holds some of them may change while a run goes on."""
_ALL = "*"
"""What `from module import *` gives."""


def of_main(
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
        files |= {*imported_in(own[each].encode(), Path(origin).absolute()), *_file_of(value)}
        own[each] += _value(value) if values else ""
    found = {f"{origin}:{name}": "".join(f"{each}: {own[each]}\n" for each in sorted(own)).encode()}
    for file in files:
        with suppress(OSError):  # whoever imports it is told
            found |= {str(file): file.read_bytes()} if is_users(str(file)) else {}
    return found


def statements_of_script(file: str) -> Mapping[str, str]:
    """As the script said when this process first asked."""
    if file not in _SCRIPTS:
        try:
            _SCRIPTS[file] = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            _SCRIPTS[file] = ""
    return statements_in(_SCRIPTS[file])


def statements_of_cells() -> Mapping[str, str]:
    """Of a notebook's cells, of which there are no files; the last one that gives a name counts."""
    found: dict[str, str] = {}
    for cell in [*linecache.cache]:
        if not Path(cell).is_file():
            found |= statements_in("".join(linecache.getlines(cell)))
    return found


def _of_its_cell(name: str, made: object) -> str:
    """What the cell says that a class or function is from, which may have been run again, before later ones' order."""
    functions = [*vars(made).values()] if issubclass(type(made), type) else [made]
    cells = [each.__code__.co_filename for each in functions if type(each) is FunctionType]
    texts = ("".join(linecache.getlines(cell)) for cell in dict.fromkeys(cells) if not Path(cell).is_file())
    return next(filter(None, (statements_in(text).get(name, "") for text in texts)), "")


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
