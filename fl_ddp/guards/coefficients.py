"""Coefficients of an objective, which a local step is given as numbers and which are no constants of it."""

from __future__ import annotations

from numbers import Real

from fl_ddp.errors import refused_attribute


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
    for name in names:
        value = vars(objective).get(name)
        if isinstance(value, bool) or not isinstance(value, Real):
            raise refused_attribute(owner, "coefficients", f"names {name!r}", "options of it that are numbers")
        found[name] = float(value)
    return found
