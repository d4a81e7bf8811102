"""How a run can end before its last round, and whose line of code it was: a user's own, or one of the installed."""

from __future__ import annotations

import inspect
import os
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from copy import copy
from functools import cache
from pathlib import Path
from types import CodeType, TracebackType
from typing import ClassVar, NamedTuple

_PACKAGE = Path(__file__).parent
_INSTALLED = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")]


class _SentError(Exception):
    """An error that another process may send with its text as it is, though it is made of something else."""

    def __reduce__(self) -> tuple[object, ...]:
        return _made_again, (type(self), self.args), self.__dict__


def _made_again(kind: type[BaseException], args: tuple[object, ...]) -> BaseException:
    return kind.__new__(kind, *args)


class ConfigError(_SentError):
    """The user's input cannot be run (exit code 2); one line says where, what is wrong, and what would be accepted.

    Attributes:
        where: the option as the user wrote it (--lr, or file and key), the file or the word that it is about.
        what: is wrong with it.
        accepted: in its place; empty where the text of `what` says it, or nothing is.
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, where: str | Path, what: str, accepted: str = "") -> None:
        self.where, self.what, self.accepted = str(where), what, accepted
        super().__init__(f"{where}: {what}" + (f"; accepted: {accepted}" if accepted else ""))

    def within(self, place: str | Path) -> ConfigError:
        """The same error, told with the place that the option or the word stands in."""
        return ConfigError(f"{place}: {self.where}", self.what, self.accepted)


class RunError(Exception):
    """The run failed while it was going on: a loss that is not finite, a lost rank, a full disk (exit code 1)."""

    exit_code: ClassVar[int] = 1

    def saying_more(self, words: str) -> RunError:
        """An error of the same kind whose text goes on with some words."""
        longer = copy(self)
        longer.args = (f"{self}{words}",)
        return longer


class CompilerError(RunError):
    """What the run computes with cannot be compiled."""


class DivergedError(_SentError, RunError):
    """A number of a client or of the server is not finite or out of range."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; a smaller --lr usually helps")


class StatesDifferError(RunError):
    """What must be the same on all ranks is not, so that nothing of it may be saved."""


class RankLostError(RunError):
    """Another rank does not answer any more (exit code 3: this one has no fault)."""

    exit_code = 3


class DeviceError(RunError):
    """A GPU failed: nothing more can be computed on it in this process, nor saved from it."""


class InterruptedRunError(Exception):
    """The user or the launcher asked the run to stop; the text says what is saved where."""


class ElsewhereError(_SentError):
    """Another rank failed; it says why, and this one ends with the same exit code."""

    def __init__(self, rank: int, user_error: bool) -> None:
        super().__init__(f"rank {rank} failed")
        self.exit_code = ConfigError.exit_code if user_error else RunError.exit_code


@cache
def is_users(file: str) -> bool:
    """Whether a source file is the user's own."""
    path = Path(file)
    if file.startswith("<") or not path.is_absolute():
        return False
    return not any(path.is_relative_to(folder) for folder in (_PACKAGE, *_INSTALLED))


def place_of(file: str, line: int | None) -> str:
    """A line as messages name it."""
    return f"{Path(file).name}:{line}"


def place_of_code(code: CodeType) -> str:
    """Where a function begins, as messages name it."""
    return place_of(code.co_filename, code.co_firstlineno)


def place_of_hook(owner: type, name: str) -> str:
    """A function of a class as messages name it, with where it begins."""
    return f"{place_of_code(getattr(owner, name).__code__)}: {name} of {owner.__name__}"


def refused_attribute(owner: type, name: str, what: str, accepted: str) -> ConfigError:
    """What to say of a class's attribute that is of no use, with the line at which the class begins that has it."""
    says = next((each for each in owner.__mro__ if name in vars(each)), owner)
    try:
        where = f"{place_of(inspect.getfile(says), inspect.getsourcelines(says)[1])}: "
    except (OSError, TypeError):  # of a class of a notebook's
        where = ""
    return ConfigError(f"{where}{name} of {owner.__name__}", what, accepted)


def users_place(error: BaseException) -> str | None:
    """The innermost line of a user's code that an error passed through, or that the parser refused, if any."""
    if isinstance(error, SyntaxError) and error.filename and is_users(error.filename):
        return place_of(error.filename, error.lineno)
    place, trace = None, error.__traceback__
    while isinstance(trace, TracebackType):
        file = trace.tb_frame.f_code.co_filename
        if is_users(file):
            place = place_of(file, trace.tb_lineno)
        trace = trace.tb_next
    return place


def one_line(text: object) -> str:
    """A text, or what an error says, without its breaks of lines."""
    return " ".join(str(text).split())


def some_of(names: Sequence[str], most: int = 20) -> str:
    """Names for a message, the first of them where there are many."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def first_line(error: BaseException) -> str:
    """What an error says, its kind before it."""
    kind = type(error).__name__
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    first = text.strip().partition("\n")[0]
    return f"{kind}: {first}" if first else kind


def in_one_line(error: BaseException) -> str:
    """What to tell a user of an error: a mistake of their own code with its place."""
    if isinstance(error, ConfigError | RunError):
        return str(error)
    place = users_place(error)
    return f"{place}: {first_line(error)}" if place else first_line(error)


def left_early(error: SystemExit) -> RunError:
    """What to say of code of a user's that would end the program."""
    return RunError(f"{in_one_line(error)} ends the run without its results; raise an error, or return")


def error_line(words: str) -> str:
    """What is printed, or written into a run's log, of why the run ends."""
    return f"fl_ddp: error: {words}"


class Told(NamedTuple):
    """How a user is told of an error.

    Attributes:
        line: says what and where it is.
        way: the traceback, where no line of the user's own is to blame or it is asked for; else empty.
        exit_code: of the program that ends by it.
    """

    line: str
    way: str
    exit_code: int

    @classmethod
    def of(cls, error: Exception) -> Told:
        """How to tell of an error."""
        if isinstance(error, ConfigError | RunError):
            return cls(str(error), "", error.exit_code)
        above = users_place(error) is None or "FL_DDP_TRACEBACK" in os.environ
        way = "".join(traceback.format_exception(error)) if above else ""
        return cls(in_one_line(error), way, RunError.exit_code)

    @property
    def words(self) -> str:
        """The line, which points to the way."""
        return self.line + (" (the traceback is above)" if self.way else "")

    def say(self) -> int:
        """Tell the user, on stderr; the exit code."""
        print(self.way + error_line(self.words), file=sys.stderr, flush=True)
        return self.exit_code
