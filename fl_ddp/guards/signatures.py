"""Functions of a user's class that could not be called as their base's are, and options that nothing can be kept by."""

from __future__ import annotations

import inspect
from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from types import FunctionType

from fl_ddp.errors import ConfigError, is_users, place_of_hook


def refuse_other_signatures(owner: type, base: type) -> None:
    """Refuse functions of a class of a user's that do not take what those of the base class take.

    Raises:
        ConfigError: there is one.
    """
    for name, known in vars(base).items():
        own = inspect.getattr_static(owner, name, None)
        both = isinstance(own, FunctionType) and isinstance(known, FunctionType)
        if not both or name.startswith("__") or own is known or not is_users(own.__code__.co_filename):
            continue
        given = inspect.signature(known).parameters.values()
        for some in ([each for each in given if each.default is each.empty], [*given]):
            in_order = [each.name for each in some if each.kind is not each.KEYWORD_ONLY]
            try:
                inspect.signature(own).bind(
                    *in_order, **{each.name: None for each in some if each.name not in in_order}
                )
            except TypeError as error:
                raise ConfigError(place_of_hook(owner, name), f"takes ({_words(own)})", f"({_words(known)})") from error


def refuse_changeable(kind: str, made: object) -> None:
    """Refuse an object whose options can change: what is compiled is known by them.

    Raises:
        ConfigError: one of them can.
    """
    for field in fields(made) if is_dataclass(made) else ():
        value = getattr(made, field.name, None)
        if field.init and field.compare and not isinstance(value, Hashable):
            what = f"is a {type(value).__name__} in {type(made).__name__}"
            raise ConfigError(f"--{kind}.{field.name}", what, "what cannot be changed, such as a tuple")


def _words(function: FunctionType) -> str:
    signature = inspect.signature(function)
    plain = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))[1:-1]
