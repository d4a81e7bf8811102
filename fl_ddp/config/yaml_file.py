"""A configuration as YAML, in both directions."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import fields, replace
from itertools import islice
from pathlib import Path, PurePath
from typing import Any

import yaml

from fl_ddp.config.beside_file import beside
from fl_ddp.config.clear_numbers import ACCEPTED, unclear
from fl_ddp.config.options import Given
from fl_ddp.config.registry import KINDS
from fl_ddp.config.settings import Choice, Config
from fl_ddp.errors import ConfigError, one_line

MOST_VALUES = 1_000_000
"""Of one file; aliases of aliases can make more of a few lines than any memory holds."""


def read_yaml(path: Path) -> list[Given]:
    """The options in a YAML file; files that it names are looked for beside it.

    Raises:
        ConfigError: it cannot be read, is not YAML, or holds something else than options.
    """
    content = load_yaml(path)
    if content is None:
        return []
    if not isinstance(content, Mapping):
        raise ConfigError(path, "holds no options", "lines such as lr: 0.1")
    given = flatten({str(key): value for key, value in content.items()}, f"{path}: ")
    return [replace(each, value=beside(path, each.key, each.value)) for each in given]


def load_yaml(path: Path) -> object:
    """What a YAML file holds; a key that stands twice is refused.

    Raises:
        ConfigError: it cannot be read, is not YAML, or has no end, or none that can be waited for.
    """
    try:
        found = _loaded(path.read_text(encoding="utf-8"))
        if sum(1 for _ in islice(_values(found), MOST_VALUES + 1)) > MOST_VALUES:
            what = f"holds more than {MOST_VALUES} values, each alias counted as what it stands for"
            raise ConfigError(path, what)
        return found
    except RecursionError as error:
        raise ConfigError(path, "holds itself, or too much within each other") from error
    except OSError as error:
        raise ConfigError(path, f"cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(path, "is not a text file in UTF-8") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark else ""
        if isinstance(error, _UnclearError):
            raise ConfigError(path, f"{line}{error.problem}", ACCEPTED) from error
        raise ConfigError(path, f"{line}not YAML: {error.problem or error.context}") from error
    except (
        yaml.YAMLError,
        ValueError,
        IndexError,
        AttributeError,
    ) as error:  # the last three of a value such as !!int x
        raise ConfigError(path, f"not YAML: {one_line(error)}") from error


def flatten(content: Mapping[str, object], source: str) -> list[Given]:
    """The options in a mapping shaped like the YAML.

    Args:
        content: nested or with dots in its keys; a choice is a name, {class_path, init_args}, or {name, options ...}.
        source: what messages put before a key.

    Raises:
        ConfigError: a choice is not shaped like one.
    """
    given = []
    for key, value in content.items():
        if key in KINDS and isinstance(value, Mapping):
            for name, each in _choice(key, value, source).items():
                inner = f"{key}.{name}" if name else key
                given.append(Given(inner, each, source))
        else:
            given.append(Given(key, value, source))
    return given


def to_yaml(config: Config) -> str:
    """All options of a configuration as YAML; read again, it gives the same configuration."""
    content = {}
    for each in fields(config):
        value = getattr(config, each.name)
        if isinstance(value, Choice):
            value = {"class_path": value.class_path, "init_args": dict(value.init_args)}
        content[each.name] = plain(value)
    return yaml.dump(content, Dumper=_Writer, sort_keys=False, default_flow_style=None, allow_unicode=True, width=10**9)


def _values(content: object) -> Iterator[object]:
    """All that is in a content, at any depth; a RecursionError where there is no end of it."""
    for each in content.values() if isinstance(content, dict) else content if isinstance(content, list) else ():
        yield each
        yield from _values(each)


class _Writer(yaml.SafeDumper):
    """Escapes line breaks that other quotes would fold."""


def _quoted(writer: _Writer, text: str) -> yaml.ScalarNode:
    style = '"' if any(mark in text for mark in "\x85\u2028\u2029") else None
    return writer.represent_scalar("tag:yaml.org,2002:str", text, style)


_Writer.add_representer(str, _quoted)


def plain(value: object) -> object:
    """A value in the types that YAML has.

    Raises:
        TypeError: there is no such form.
    """
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, PurePath):
        return str(value)
    if isinstance(value, Mapping):
        return {plain(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(type(value).__name__)


def written(value: object) -> str:
    """A value as it is written on the command line."""
    try:
        value = plain(value)
    except TypeError:
        return str(getattr(value, "__name__", value))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return str(value).replace(" ", "") if isinstance(value, list) else str(value)


def _choice(kind: str, content: Mapping[object, object], source: str) -> dict[str, object]:
    """The options of a choice by name; that of the class itself is empty."""
    rest = {str(key): value for key, value in content.items()}
    init_args = rest.pop("init_args", None) or {}
    if not isinstance(init_args, Mapping):
        raise ConfigError(f"{source}{kind}.init_args", f"{init_args} is not a mapping of options")
    selector = next((key for key in ("class_path", "name") if key in rest), None)
    chosen = {} if selector is None else {"": rest.pop(selector)}
    return chosen | rest | {str(key): value for key, value in init_args.items()}


class _Constructor(yaml.constructor.SafeConstructor):
    """The safe one, which also refuses a key that stands twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            if key_node.value in seen:
                raise yaml.constructor.ConstructorError(
                    problem=f"{key_node.value} stands here a second time", problem_mark=key_node.start_mark
                )
            seen.add(key_node.value)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> float:
        if unclear(node.value):
            raise _UnclearError(problem=f"{node.value} has two readings", problem_mark=node.start_mark)
        whole = node.tag == "tag:yaml.org,2002:int"
        return self.construct_yaml_int(node) if whole else self.construct_yaml_float(node)


class _UnclearError(yaml.constructor.ConstructorError):
    """A number that YAML reads otherwise than people do."""


for _kind in ("int", "float"):
    _Constructor.add_constructor(f"tag:yaml.org,2002:{_kind}", _Constructor.construct_number)  # type: ignore[type-var]


class _Loader(_Constructor, yaml.SafeLoader):
    """Reads all that a run writes, and tells what is wrong."""


# ten times as fast, and a sweep has as many files as runs
_FAST: type[Any] = type("_Fast", (_Constructor, yaml.CSafeLoader), {}) if yaml.__with_libyaml__ else _Loader


def _loaded(text: str) -> object:
    """What is in a text, by libyaml where it is there and can read it."""
    with suppress(yaml.YAMLError):
        return yaml.load(text, _FAST)
    return yaml.load(text, _Loader)
