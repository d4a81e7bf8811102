"""A launcher's command line, split into its own options, which become dataclasses, and those of fl_ddp.main."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from fl_ddp.bounds import check
from fl_ddp.config.layers import scalar_options
from fl_ddp.config.options import Given, options_of, suggestion
from fl_ddp.config.registry import KINDS
from fl_ddp.errors import ConfigError
from fl_ddp.reading.homes import users_path
from launch.input.declared import Declared, declared

OTHERS_OF_MAIN = ("config", "print_config", "version")
"""Options of fl_ddp.main that are no settings of a run."""

OptionsT = TypeVar("OptionsT")


@dataclass(frozen=True)
class Words:
    """A command line, split.

    Attributes:
        given: what was given to the launcher's own options, in order; those not given are not there.
        rest: options of fl_ddp.main: --key=value, or --key alone.
    """

    given: Mapping[str, tuple[str, ...]]
    rest: tuple[str, ...]

    def asks_for(self, switch: str) -> bool:
        """Whether a switch is on; to be asked where the other options need not be right."""
        return self.given.get(switch, ("false",))[-1] == "true"

    def given_of(self, owner: type) -> list[str]:
        """Names of a dataclass's options that were given."""
        return [each.name for each in declared(owner) if each.name in self.given]

    def read(self, owner: type[OptionsT]) -> OptionsT:
        """The options of a dataclass.

        Raises:
            ConfigError: one of them is missing or not accepted, or not with the others.
        """
        values = {}
        for each in declared(owner):
            if texts := self.given.get(each.name):
                values[each.name] = _converted(owner, each, texts)
            elif each.is_positional:
                raise ConfigError(each.form.placeholder, "is missing", each.form.accepted)
        check(owner, values, "--")
        return owner(**values)


def split(line: Sequence[str], *owners: type, refused: Mapping[str, str] | None = None) -> Words:
    """Split a command line; --help is every launcher's.

    Args:
        line: the command line.
        owners: dataclasses whose fields are the launcher's options.
        refused: options of fl_ddp.main that are not the user's to give here, and what to give instead.

    Raises:
        ConfigError: a value is missing or no switch's, a word belongs to no option, an option is refused, or is
            misspelt and neither the launcher's nor one of fl_ddp.main's.
    """
    ours = [each for owner in owners for each in declared(owner)]
    switches = {"help", *(each.name for each in ours if each.is_switch)}
    named = [*switches, *(each.name for each in ours if not (each.is_switch or each.is_positional))]
    given: dict[str, list[str]] = {}
    positional: list[str] = []
    rest: list[str] = []
    left = ["--help" if word == "-h" else word for word in line]
    while left:
        word = left.pop(0)
        if not word.startswith("--"):
            positional.append(word)
            continue
        key = key_of(word)
        if refused and key in refused:
            raise ConfigError(f"--{key}", f"is not the user's to give here; give {refused[key]}")
        if key in switches:
            given.setdefault(key, []).append(_switched(word, left))
        elif key in named:
            given.setdefault(key, []).append(_value(word, left))
        elif near := _misspelt(key, named):
            raise ConfigError(f"--{key}", f"unknown option; did you mean --{near}?")
        else:
            rest.append(f"{word}={left.pop(0)}" if _is_followed(word, left) else word)
    if positional and "help" not in given:
        given |= _placed(positional, next((each for each in ours if each.is_positional), None))
    return Words({key: tuple(texts) for key, texts in given.items()}, tuple(rest))


def key_of(option: str) -> str:
    """The key of an option that is written as --key=value or --key."""
    return option.removeprefix("--").partition("=")[0]


def _is_followed(word: str, left: list[str]) -> bool:
    """Whether an option takes the next word, if it takes a value."""
    return "=" not in word and bool(left) and not left[0].startswith("--")


def _switched(word: str, left: list[str]) -> str:
    """What a switch is turned to; the word after it is taken if it says that."""
    if _is_followed(word, left) and left[0].lower() in ("true", "false"):
        return left.pop(0).lower()
    key, _, value = word.partition("=")
    if value.lower() not in ("", "true", "false"):
        raise ConfigError(key, f"{value} is unknown", "true or false")
    return value.lower() or "true"


def _value(word: str, left: list[str]) -> str:
    """The value of an option, in its own word or the one after it."""
    key, equals, value = word.partition("=")
    value = left.pop(0) if _is_followed(word, left) else value
    if not value:
        hint = f"; one that begins with -- is written {key}={left[0]}" if left and not equals else ""
        raise ConfigError(key, f"needs a value{hint}")
    return value


def _placed(words: list[str], option: Declared | None) -> dict[str, list[str]]:
    """Words without a name before them, given to the option that takes them."""
    if option is None:
        raise ConfigError(words[0], "belongs to no option; write --option value")
    if len(words) > 1 and not option.repeats:
        raise ConfigError(words[1], f"belongs to no option; {option.form.placeholder} is {words[0]} already")
    return {option.name: words}


def _converted(owner: type, option: Declared, texts: tuple[str, ...]) -> object:
    """The value of an option in its type."""
    if option.form.is_path:
        where = option.form.placeholder if option.is_positional else f"--{option.name}"
        texts = tuple(str(users_path(where, text)) for text in texts)
    if option.repeats:
        given = Given(option.name, list(texts), "--")
    else:
        given = Given(option.name, texts[-1], "--", typed=False)
    try:
        return options_of(owner).convert(option.name, given)
    except ConfigError:
        check(owner, {option.name: texts[-1]}, "--")  # a bound says more of what is accepted than a type
        raise


def _misspelt(key: str, ours: Sequence[str]) -> str | None:
    """The option of ours that an unknown one means, if it is none of fl_ddp.main's."""
    if key.partition(".")[0] in (*KINDS, *scalar_options().by_name, *OTHERS_OF_MAIN):
        return None
    return suggestion(key, ours)
