"""Coefficients of an objective, which a local step is given as numbers and which are no constants of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import fields, is_dataclass
from numbers import Real
from typing import TypeVar

from fl_ddp.errors import refused_attribute

Objective = TypeVar("Objective")


def coefficients_of(objective: object) -> dict[str, float]:
    """What the class of an objective itself names as coefficients, with the objective's values.

    A subclass names its own: its functions may do with an inherited one what a tensor does not let them.

    Raises:
        ConfigError: they are no tuple of names, or one of them is no number that the objective has.
    """
    owner = type(objective)
    names = vars(owner).get("coefficients", ())
    if not isinstance(names, tuple):
        raise refused_attribute(owner, "coefficients", f"is {names!r}", 'a tuple of names, such as ("mu",)')
    found = dict[str, float]()
    attributes = attributes_of(objective) if names else ()
    for name in names:
        value = getattr(objective, name) if name in attributes else None
        if isinstance(value, bool) or not isinstance(value, Real):
            raise refused_attribute(owner, "coefficients", f"names {name!r}", "options of it that are numbers")
        found[name] = float(value)
    return found


def attributes_of(objective: object) -> tuple[str, ...]:
    """Names of what an objective has and its class does not; of options in slots, too."""
    options = [each.name for each in fields(objective)] if is_dataclass(objective) else []
    kept = vars(objective) if hasattr(objective, "__dict__") else {}
    return tuple(dict.fromkeys([*(name for name in options if hasattr(objective, name)), *kept]))


def with_coefficients(
    objective: Objective, attributes: tuple[str, ...], coefficients: Mapping[str, object]
) -> Objective:
    """A copy of an objective with others as its coefficients; itself where there are none.

    Its class does not make it, as it would check bounds; its attributes are named, as torch 2.11 does not trace vars().
    """
    if not coefficients:
        return objective
    copied = object.__new__(type(objective))
    for name in attributes:
        object.__setattr__(copied, name, coefficients[name] if name in coefficients else getattr(objective, name))
    return copied


def for_any_coefficients(objective: Objective, names: Collection[str]) -> Objective:
    """What is equal for all values of an objective's coefficients, and takes the same step when it is given them.

    Itself where a step of one might be taken for another's: its class takes some for alike that differ in more, such as
    a number that comes of a coefficient, or none.
    """
    if not names:
        return objective
    attributes = attributes_of(objective)
    kind = type(objective), attributes
    if kind not in _TELLS:
        _TELLS[kind] = _tells_apart(objective, attributes, frozenset(names))
    return with_coefficients(objective, attributes, dict.fromkeys(names, 0.0)) if _TELLS[kind] else objective


_TELLS: dict[tuple[type, tuple[str, ...]], bool] = {}
"""Of a class with these attributes, whether it tells its objects apart by all of them."""


def _tells_apart(objective: object, attributes: tuple[str, ...], names: frozenset[str]) -> bool:
    """Whether copies of an objective are alike, and none with anything else as one of its attributes."""
    one, another = (with_coefficients(objective, attributes, dict.fromkeys(names, 0.0)) for _ in range(2))
    with_one = [with_coefficients(objective, attributes, {name: object()}) for name in attributes if name not in names]
    try:
        return one == another and not any(other == objective for other in with_one)
    except Exception:  # a user's comparison may fail of what it does not know
        return False
