"""Coefficients of a method, which a compiled local step is given as numbers: what is none is refused before a run."""

from __future__ import annotations

from numbers import Real

from fl_ddp.errors import ConfigError, place_of_attribute


def refuse_no_numbers(method: object, names: object) -> None:
    """Refuse what a method names as its coefficients, if a step cannot be given it as numbers.

    Raises:
        ConfigError: it is no tuple of names, or one of them is no number of the method's.
    """
    owner = type(method)
    where, what = place_of_attribute(owner, "coefficients"), f"coefficients of {owner.__name__}"
    if not isinstance(names, tuple):
        raise ConfigError(f"{where}{what}", f"is {names!r}", 'a tuple of names, such as ("mu",)')
    for name in names:
        value = getattr(method, name, None) if isinstance(name, str) else None
        if isinstance(value, bool) or not isinstance(value, Real) or name not in vars(method):
            raise ConfigError(f"{where}{what}", f"names {name!r}", "options of it that are numbers")
