"""Pages whose numbers are filled in: directives in braces say which number of which file stands there."""

from __future__ import annotations

import re
from collections.abc import Callable

from fl_ddp.errors import ConfigError

Directive = Callable[[str], str]
"""What stands in braces, without them and on one line, to what stands in its place."""

_PIECES = re.compile(r"(?P<code>^```.*?^```$|`[^`\n]+`|^#.*?$)|\{(?P<directive>[^{}]*)\}", re.DOTALL | re.MULTILINE)
_TYPED = re.compile(r"(?<![\w.-])[\d.,]*\d(?![\w-])(\s?%)?")
_NAMES = re.compile(r"\b(Tables?|Figures?) \d+((,| and| to) \d+)*")


def fill(text: str, directive: Directive, where: str) -> str:
    """Fill a template.

    Code and headings are left as they are. No other text may hold a number, but in a name such as Table 3: what is
    typed does not change with the files.

    Args:
        text: of the template.
        directive: answers what stands in braces.
        where: the template is, for messages.

    Raises:
        ConfigError: a directive cannot be answered, or a number is typed; the message names the line.
    """
    filled, end = [], 0
    for piece in _PIECES.finditer(text):
        filled.append(_prose(text, end, piece.start(), where))
        end = piece.end()
        if piece["code"] is not None:
            filled.append(piece["code"])
            continue
        try:
            filled.append(directive(" ".join(piece["directive"].split())))
        except ConfigError as error:
            raise ConfigError(f"{where}:{_line(text, piece.start())}", str(error)) from error
    return "".join([*filled, _prose(text, end, len(text), where)])


def _prose(text: str, start: int, end: int, where: str) -> str:
    prose = text[start:end]
    named = _NAMES.sub(lambda name: "x" * len(name[0]), prose)
    if typed := _TYPED.search(named):
        line = _line(text, start + typed.start())
        raise ConfigError(
            f"{where}:{line}",
            f"{typed[0]} is typed",
            f"a directive, or {{typed {typed[0]}}} where it is no result of ours: a setting, or a paper's words",
        )
    if brace := re.search("[{}]", prose):
        raise ConfigError(f"{where}:{_line(text, start + brace.start())}", "a brace without its other half")
    return prose


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
