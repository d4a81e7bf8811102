"""The options of a launcher, as the fields of a dataclass declare them; one without default is positional."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, get_args, get_origin, get_type_hints

from fl_ddp.config.options import options_of


@dataclass(frozen=True)
class Form:
    """What a text looks like, told by its type where an option is declared: Annotated[str, Form("DIR")].

    Attributes:
        placeholder: what stands for it in --help.
        pattern: regular expression of the whole text.
        accepted: in words, for messages.
        is_path: it is of a file or a folder, which a shell leaves as it is where it begins with a home behind a =.
    """

    placeholder: str
    pattern: str = ".*"
    accepted: str = ""
    is_path: bool = False

    def refused(self, _: str, value: object) -> str | None:
        """What would be accepted in place of a value; None if it is accepted itself."""
        return None if re.fullmatch(self.pattern, str(value)) else self.accepted


Folder = Annotated[str, Form("DIR", is_path=True)]
Name = Annotated[str, Form("NAME")]


@dataclass(frozen=True)
class Declared:
    """An option.

    Attributes:
        name: without dashes.
        about: its line in the docstring.
        default: where it is not given.
        form: of its value.
        is_switch: it is on or off, alone or with true or false.
        is_positional: its values stand without a name before them.
        repeats: it may be given several times, and then all count; of others the last one does.
    """

    name: str
    about: str
    default: object
    form: Form
    is_switch: bool
    is_positional: bool
    repeats: bool


def declared(owner: type) -> tuple[Declared, ...]:
    """All options of a dataclass, in their order."""
    hints = get_type_hints(owner, include_extras=True)
    return tuple(
        Declared(
            name=name,
            about=option.help.removesuffix("."),
            default=option.default,
            form=_form(name, hints[name]),
            is_switch=option.type is bool,
            is_positional=option.required,
            repeats=get_origin(option.type) is tuple,
        )
        for name, option in options_of(owner).by_name.items()
    )


def _form(name: str, hint: object) -> Form:
    """That of a text, or of each text in a tuple, as its type tells it; of other values a placeholder alone."""
    if get_origin(hint) is Annotated:
        told = next((each for each in get_args(hint) if isinstance(each, Form)), None)
        return told or _form(name, get_args(hint)[0])
    if get_origin(hint) is Literal:
        return Form("|".join(map(str, get_args(hint))))
    if get_args(hint):
        return _form(name, get_args(hint)[0])
    return Form("N" if hint is int else name.rpartition("_")[2].upper())
