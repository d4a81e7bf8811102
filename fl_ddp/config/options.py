"""The options of a class, read from its constructor, and the conversion of what a user wrote into their types."""

from __future__ import annotations

import inspect
import math
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, is_dataclass, replace
from difflib import SequenceMatcher
from functools import cache
from typing import Annotated, Literal, Union, get_args, get_origin

from jsonargparse import ArgumentError, ArgumentParser

from fl_ddp.config.clear_numbers import ACCEPTED, unclear
from fl_ddp.errors import ConfigError, is_users, one_line

_SHOWN = 200
"""Characters of a value that a message shows at most."""


@dataclass(frozen=True)
class Given:
    """One option as the user wrote it.

    Attributes:
        key: "lr", a choice "method", or an option of a choice "method.mu".
        value: as read from YAML or Python; the text after the option on the command line, True where there is none.
        source: what messages put before the key: "--" on the command line, "my.yaml: " in a file.
        typed: the value has its type already; false for text of the command line.
    """

    key: str
    value: object
    source: str = ""
    typed: bool = True

    @property
    def where(self) -> str:
        """What messages call it."""
        return self.source + self.key

    @property
    def dashes(self) -> str:
        """What stands before other keys in messages about this one."""
        return "--" if self.source == "--" else ""

    @property
    def of_file(self) -> bool:
        """Whether it stands in a file."""
        return self.source not in ("", "--")

    @property
    def bare(self) -> bool:
        """Whether this is an option of the command line without a value."""
        return self.source == "--" and self.typed


@dataclass(frozen=True)
class Option:
    """An argument of a constructor.

    Attributes:
        default: None where the option is required.
        help: its line in the docstring, maybe empty.
        type: its annotation.
    """

    default: object
    required: bool
    help: str
    type: object


@dataclass(frozen=True)
class Options:
    """The options of a class by name; some are `beside` its own, and count for it only where they are given."""

    parser: ArgumentParser
    by_name: Mapping[str, Option]
    beside: frozenset[str] = frozenset()

    def convert(self, name: str, given: Given) -> object:
        """The value of an option in its type.

        Raises:
            ConfigError: it has another type or is not a finite number.
        """
        hint = self.by_name[name].type
        if given.typed and isinstance(given.value, str) and str in (hint, *get_args(hint)):
            return given.value  # jsonargparse would take the text "null" for null
        part = unclear(given.value) if _of_numbers(hint) else None
        # alone on the command line 010 is Python's to read, as ten
        if part and not (not given.typed and part == given.value and ":" not in part):
            raise ConfigError(given.where, f"{part} has two readings", ACCEPTED)
        try:
            if given.typed and given.value is not None:
                value = self.parser.parse_object({name: given.value}, defaults=False)[name]
            else:
                text = "null" if given.typed else given.value
                value = self.parser.parse_args([f"--{name}={text}"], defaults=False)[name]
            if given.value is None and value is not None:
                raise ValueError("null")
        except (ArgumentError, TypeError, ValueError) as error:
            if get_origin(hint) in (tuple, list) and (alone := _alone(given)):
                with suppress(ConfigError):
                    return self.convert(name, alone)
            accepted = accepted_values(hint)
            if given.bare:
                raise ConfigError(given.where, "needs a value", accepted) from error
            shown = "null" if given.value is None else given.value
            if str(shown).lower().lstrip("+-") in ("nan", "inf", "infinity"):
                raise ConfigError(given.where, f"{shown} is not a finite number") from error
            what = "is unknown" if get_origin(hint) is Literal else "has the wrong type"
            told = one_line(shown)
            told = told if len(told) <= _SHOWN else f"{told[:_SHOWN]}..."
            raise ConfigError(given.where, f"{told} {what}", accepted) from error
        if not finite(value):
            raise ConfigError(given.where, f"{given.value} is not a finite number")
        return value


@cache
def options_of(
    owner: Callable[..., object],
    skip: frozenset[str] = frozenset(),
    beside: Callable[..., object] | None = None,
) -> Options:
    """The options of a class or a function, those that it hands on through **kwargs included.

    Args:
        owner: the class or the function.
        skip: arguments that are not the user's.
        beside: a function whose arguments are options, too, but for those that the owner has itself.
    """
    parser = ArgumentParser(exit_on_error=False, add_help=False)
    if isinstance(owner, type):
        names = parser.add_class_arguments(owner, skip=set(skip), fail_untyped=False)
    else:
        names = parser.add_function_arguments(owner, skip=set(skip), fail_untyped=False)
    others = parser.add_function_arguments(beside, skip={*names, *skip, "module"}) if beside else []
    by_name = {}
    for action in parser._actions:
        if action.dest in (*names, *others):
            text = " ".join((action.help or "").split())
            hint = getattr(action, "_typehint", object)
            by_name[action.dest] = Option(action.default, action.required, text, hint)
        # Values are converted one at a time, so a missing one is found elsewhere.
        action.required = False
    return Options(parser, by_name, frozenset(others))


def why_no_option(owner: object, name: str) -> str:
    """What a subclass of a dataclass lacks so that a name it declares were an option; empty if it declares none."""
    if not isinstance(owner, type) or not is_dataclass(owner) or name.startswith("_"):
        return ""
    given = next((each for each in owner.__mro__ if name in {**vars(each), **inspect.get_annotations(each)}), object)
    known = any(name in vars(each) for each in given.__mro__[1:])  # what is set anew of the base's is none of theirs
    file = getattr(sys.modules.get(given.__module__), "__file__", None)
    if known or not (given.__module__ == "__main__" or is_users(file or "<unknown>")):
        return ""
    hint, value = inspect.get_annotations(given).get(name), vars(given).get(name)
    if hint is not None:
        if "__dataclass_fields__" in vars(given) or "ClassVar" in str(hint):
            return ""
        return f"{given.__name__} declares {name}, an option once @dataclass(frozen=True) stands above it"
    if callable(value) or hasattr(value, "__get__"):
        return ""
    return f"{given.__name__} sets {name}, an option once it has a type, {name}: float = ..., in a dataclass"


def accepted_values(hint: object) -> str:
    """What values a type hint accepts, in words."""
    if get_origin(hint) is Annotated:
        return accepted_values(get_args(hint)[0])
    words = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", types.NoneType: "null"}
    if isinstance(hint, type) and hint in words:
        return words[hint]
    inner = get_args(hint)
    if get_origin(hint) is Literal:
        return " or ".join(str(value) for value in inner)
    if get_origin(hint) in (Union, types.UnionType):
        return " or ".join(accepted_values(one) for one in inner)
    if get_origin(hint) in (tuple, list):
        return f"a list such as [{','.join('...' if one is Ellipsis else accepted_values(one) for one in inner)}]"
    return str(getattr(hint, "__name__", hint))


def nearest_first(word: str, known: Iterable[str]) -> list[str]:
    """Names sorted by likeness to a word, case aside."""
    return sorted(known, key=lambda name: (-_likeness(word, name), name))


def suggestion(word: str, known: Iterable[str]) -> str | None:
    """The name that a misspelt word means, if any is near."""
    best = nearest_first(word, known)[:1]
    return best[0] if best and _likeness(word, best[0]) >= 0.6 else None


def meant(word: str, known: Iterable[str]) -> str:
    """What a message says of an unknown name: the nearest known one, and all of them."""
    names = nearest_first(word, known)
    near = suggestion(word, names)
    return f"{f'did you mean {near}? ' if near else ''}known: {', '.join(names)}"


def _likeness(word: str, name: str) -> float:
    return SequenceMatcher(None, word.lower(), name.lower()).ratio()


def _of_numbers(hint: object) -> bool:
    """Whether a type, or one in it, is of numbers."""
    return hint in (int, float) or any(map(_of_numbers, get_args(hint)))


def _alone(given: Given) -> Given | None:
    """One value, or values with commas, as a list; None for what is a list or nothing."""
    if given.typed:
        listed = isinstance(given.value, int | float) and not isinstance(given.value, bool)
        return replace(given, value=[given.value]) if listed else None
    text = str(given.value)
    return None if not text or text.startswith("[") else replace(given, value=f"[{text}]")


def finite(value: object) -> bool:
    """Whether all numbers in a nest of lists and mappings are finite."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(finite(one) for one in value.values())
    return not isinstance(value, list | tuple) or all(finite(one) for one in value)
