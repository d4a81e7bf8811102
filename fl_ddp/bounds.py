"""What numbers an option accepts, told by its type where it is declared: `mu: NonNegative = 0.01`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

from fl_ddp.errors import ConfigError


@dataclass(frozen=True)
class Whole:
    """Whole numbers from `least` up, of so many bits."""

    least: int
    bits: int = 31

    def words(self, name: str) -> str:
        """What is accepted for an option of this name."""
        return f"whole numbers from {self.least} up"

    def refused(self, name: str, value: object) -> str | None:
        """What would be accepted in place of a value; None if it is accepted itself."""
        if not isinstance(value, int) or isinstance(value, bool) or value < self.least:
            return self.words(name)
        return f"whole numbers below 2**{self.bits}" if value >= 2**self.bits else None


@dataclass(frozen=True)
class Real:
    """Finite numbers within bounds, which belong to them or not."""

    above: float | None = None
    least: float | None = None
    most: float | None = None
    below: float | None = None

    def refused(self, name: str, value: object) -> str | None:
        """What would be accepted in place of a value; None if it is accepted itself."""
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            return self.words(name)
        low = (self.above is None or value > self.above) and (self.least is None or value >= self.least)
        high = (self.most is None or value <= self.most) and (self.below is None or value < self.below)
        return None if low and high else self.words(name)

    def words(self, name: str) -> str:
        """What is accepted for an option of this name."""
        if self == Real():
            return "finite numbers"
        if self.most is None and self.below is None:
            return f"numbers above {self.above}" if self.least is None else f"numbers from {self.least} up"
        low = f"{self.above} <" if self.least is None else f"{self.least} <="
        high = f"<= {self.most}" if self.below is None else f"< {self._shown(self.below)}"
        return f"{low} {name} {high}"

    def _shown(self, bound: float) -> str:
        power = math.log2(bound)
        return f"2**{power:.0f}" if power >= 16 and power.is_integer() else str(bound)


Count = Annotated[int, Whole(1)]
CountOrZero = Annotated[int, Whole(0)]
Seed = Annotated[int, Whole(0, bits=63)]
Finite = Annotated[float, Real()]
Positive = Annotated[float, Real(above=0)]
NonNegative = Annotated[float, Real(least=0)]
Share = Annotated[float, Real(above=0, most=1)]
"""A part of a whole, not nothing."""
UnitInterval = Annotated[float, Real(least=0, most=1)]
"""A weight between one thing and another."""
BelowOne = Annotated[float, Real(least=0, below=1)]
"""A momentum or the like, whose powers must vanish."""


def bounds_in_words(name: str, hint: object) -> str:
    """What numbers the type of an option accepts; empty where it declares no bounds."""
    if get_origin(hint) is Annotated:
        words: str = get_args(hint)[1].words(name)
        return words
    found = (bounds_in_words(name, kind) for kind in get_args(hint) if get_origin(hint) is not Literal)
    return " or ".join(dict.fromkeys(filter(None, found)))


def check(owner: Callable[..., object], values: Mapping[str, object], prefix: str) -> None:
    """Refuse options that are out of the bounds, or not among the words, that their types declare.

    Args:
        owner: class, or function, that declares them.
        values: of its options by name; those that are not given count for nothing.
        prefix: what messages put before a name, such as "--method.".

    Raises:
        ConfigError: one of them is not accepted.
    """
    for name, hint in declared(owner).items():
        if name in values and (wrong := next(_refused(name, values[name], hint), None)):
            value, accepted = wrong
            raise ConfigError(f"{prefix}{name}", f"{value} is impossible", accepted)


def check_fields(instance: object, prefix: str) -> None:
    """Check the fields of a dataclass's instance, as check() does."""
    owner = type(instance)
    names = [each.name for each in fields(instance)]  # type: ignore[arg-type]
    check(owner, {name: getattr(instance, name) for name in names}, prefix)


@cache
def declared(owner: Callable[..., object]) -> Mapping[str, object]:
    """Types of the options of a class, or of a function, with their bounds; none of annotations that cannot be read."""
    try:
        if is_dataclass(owner) or not isinstance(owner, type):
            return get_type_hints(owner, include_extras=True)
        constructors = [vars(parent)["__init__"] for parent in reversed(owner.__mro__) if "__init__" in vars(parent)]
        hints = [get_type_hints(each, include_extras=True) for each in constructors if inspect.isfunction(each)]
        return {name: hint for each in hints for name, hint in each.items()}
    except (NameError, TypeError):
        return {}


def _refused(name: str, value: object, hint: object) -> Iterator[tuple[object, str]]:
    """A value, or those of a tuple's, that its type refuses, and what it accepts."""
    if get_origin(hint) is tuple and isinstance(value, tuple | list):
        for each in value:
            yield from _refused(name, each, get_args(hint)[0])
        return
    kinds = [hint] if get_origin(hint) in (Annotated, Literal) else get_args(hint)
    accepted = []
    for kind in kinds:
        if get_origin(kind) is Literal:
            words = get_args(kind)
            if value in words:
                return
            accepted.append(", ".join(map(str, words)))
        elif get_origin(kind) is Annotated:
            refused = get_args(kind)[1].refused(name, value)
            if refused is None:
                return
            accepted.append(refused)
        elif get_origin(kind) is tuple and isinstance(value, tuple | list):
            yield from _refused(name, value, kind)
            return
        elif isinstance(kind, type) and isinstance(value, kind):
            return
    if accepted:
        yield value, " or ".join(accepted)
