"""The known mistakes: lines of the program as they must not be, and the tests that should know each.

A text for each area has blocks of four lines, and an empty one between two of them:

    what is wrong | tests/ranks/test_cohort.py | FedAvg: plain
    fl_ddp/ranks/cohort.py
    - the line as it is
    + the line as it must not be

Behind what is wrong stand the tests, as pytest takes them or as the names of cases of tests/reference/cases.py. The
line is given without its indentation, and the file has it once.
"""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

REFERENCE = "tests/reference/test_reference.py::test_every_number_is_the_references"


class Mistake(NamedTuple):
    """One line of the program as it must not be.

    Attributes:
        area: name of the text that it stands in.
        what: is wrong.
        tests: that should know, as words of pytest's command line.
        file: of the program.
        right: the line as it is.
        wrong: the line as it must not be.
    """

    area: str
    what: str
    tests: tuple[str, ...]
    file: str
    right: str
    wrong: str

    def planted_in(self, source: str) -> str:
        """The file's text with the mistake.

        Raises:
            ValueError: it does not have the line once, or would be no program or the same program.
        """
        lines = source.splitlines()
        places = [number for number, line in enumerate(lines) if line.strip() == self.right]
        if len(places) != 1:
            raise ValueError(f"{self.file} has the line of {self.what!r} {len(places)} times, not once: {self.right}")
        place = places[0]
        first, end = next((span for span in _parts(source) if span[0] <= place < span[1]), (0, len(lines)))
        as_it_is = _tree(_alone(lines[first:end]))
        lines[place] = lines[place].replace(self.right, self.wrong)
        try:
            changed = ast.parse(_alone(lines[first:end]))
            compile(changed, self.file, "exec")
        except SyntaxError as error:
            raise ValueError(f"{self.file} is no program with {self.what!r}: {error}") from error
        if ast.dump(changed) == as_it_is:
            raise ValueError(f"{self.file} is the same program with {self.what!r}")
        return "\n".join(lines) + "\n"


@cache
def _parts(source: str) -> list[tuple[int, int]]:
    """First line, from 0, and end of each function or other part of a program: a mistake changes the first it is in."""
    whole = ast.parse(source).body
    methods = [each for part in whole if isinstance(part, ast.ClassDef) for each in part.body]
    parts = [*(each for each in methods if isinstance(each, ast.FunctionDef)), *whole]
    starts = [min([each.lineno, *(line.lineno for line in getattr(each, "decorator_list", []))]) - 1 for each in parts]
    return [(start, each.end_lineno or start + 1) for start, each in zip(starts, parts, strict=True)]


def _alone(lines: list[str]) -> str:
    """A part of a program as a program, whatever it is indented by."""
    return "\n".join(["if True:", *lines] if lines[0].startswith(" ") else lines)


@cache
def _tree(text: str) -> str:
    """A part of a program without its layout."""
    return ast.dump(ast.parse(text))


def known_mistakes(folder: Path) -> list[Mistake]:
    """All mistakes of the texts in a folder.

    Raises:
        ValueError: a block is malformed.
    """
    return [mistake for text in sorted(folder.glob("*.txt")) for mistake in _of_text(text)]


def _of_text(text: Path) -> Iterator[Mistake]:
    for block in text.read_text(encoding="utf-8").strip().split("\n\n"):
        lines = block.split("\n")
        what, *fields = lines[0].split(" | ")
        signs = [line[:2] for line in lines[2:]]
        if not fields or signs != ["- ", "+ "]:
            raise ValueError(f"{text.name}: the block {what!r} is malformed")
        words = [word for field in fields for word in _words(field)]
        yield Mistake(text.stem, what, tuple(words), lines[1], lines[2][2:], lines[3][2:])


def _words(field: str) -> list[str]:
    return shlex.split(field) if field.startswith("tests/") else [f"{REFERENCE}[{field}]"]
