"""What --help prints of the options of a launcher."""

from __future__ import annotations

import inspect
import textwrap

from fl_ddp.config.yaml_file import written
from launch.input.declared import Declared, declared

_WIDTH, _COLUMN = 120, 26


def help_text(prose: str, *owners: type) -> str:
    """A page of --help.

    Args:
        prose: the page, with {options} where they belong.
        owners: dataclasses whose fields are the options; the first line of a docstring is the heading.
    """
    sections = [_section(owner) for owner in owners] + [_line("--help", "print this and stop")]
    return prose.replace("{options}", "\n\n".join(sections))


def _section(owner: type) -> str:
    heading = inspect.cleandoc(owner.__doc__ or "").partition("\n")[0].removesuffix(".")
    return "\n".join([f"{heading}:", *(_line(_left(each), _right(each)) for each in declared(owner))])


def _left(option: Declared) -> str:
    if option.is_positional:
        return option.form.placeholder
    return f"--{option.name}" if option.is_switch else f"--{option.name} {option.form.placeholder}"


def _right(option: Declared) -> str:
    """What it is, and its default where that says something."""
    several = "; may be given several times" if option.repeats and not option.is_positional else ""
    silent = option.default is None or option.default is False or option.default == ()
    return f"{option.about}{several}" + ("" if silent else f" [{written(option.default)}]")


def _line(left: str, right: str) -> str:
    return textwrap.fill(
        f"{left:<{_COLUMN - 3}} {right}",
        _WIDTH,
        initial_indent="  ",
        subsequent_indent=" " * _COLUMN,
        break_on_hyphens=False,
    )
