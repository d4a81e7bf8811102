"""The points of a sweep: what differs from run to run."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from fl_ddp.config.settings import OF_FOLDER
from fl_ddp.errors import ConfigError
from launch.input.values import MOST, read_values
from launch.input.words import OTHERS_OF_MAIN

Point = Mapping[str, str]
"""Options of fl_ddp.main by name, as the command line writes their values."""

_LONGEST = 113
"""Letters of a name that none of its seed adds to."""
_SEED = re.compile(r"[0-9]{1,20}")
_NOT_VARIED = (*OTHERS_OF_MAIN, "help", *OF_FOLDER)


@dataclass(frozen=True)
class Axis:
    """What one option of a sweep varies.

    Attributes:
        source: the option as the user wrote it, for messages.
        points: of which each point of the sweep takes one.
    """

    source: str
    points: tuple[Point, ...]

    @property
    def keys(self) -> tuple[str, ...]:
        """All keys of its points, in their order."""
        return tuple(dict.fromkeys(key for point in self.points for key in point))


def read_grid(text: str) -> Axis:
    """An axis written as method.lam=0.1,1,10 or seed=0..4.

    Raises:
        ConfigError: it is malformed.
    """
    source = f"--grid {text}"
    key, values = key_and_rest(text, source, "key=value,value or key=0..4")
    return Axis(source, tuple({key: value} for value in read_values(values, source)))


def key_and_rest(text: str, source: str, accepted: str) -> tuple[str, str]:
    """What stands before and behind the first =.

    Raises:
        ConfigError: there is no =, or what stands before it cannot be varied.
    """
    key, equals, rest = text.partition("=")
    if not equals or not rest:
        raise ConfigError(source, "has no value", accepted)
    return check_key(key.strip().removeprefix("--"), source), rest


def check_key(key: str, source: str) -> str:
    """The name of an option that a sweep may vary.

    Raises:
        ConfigError: it is none.
    """
    if not re.fullmatch(r"\w+(\.\w+)?", key):
        raise ConfigError(source, f"{key!r} is no option", "names such as lr or method.mu")
    if key in _NOT_VARIED:
        raise ConfigError(source, f"{key} cannot be varied", "settings of a run")
    return key


def combined(axes: Sequence[Axis]) -> list[Point]:
    """All combinations of one point of each axis; the last axis changes fastest.

    Raises:
        ConfigError: two axes vary the same key, or there are too many combinations.
    """
    varied: dict[str, str] = {}
    for axis in axes:
        for key in axis.keys:
            if key in varied:
                raise ConfigError(axis.source, f"{key} is varied by {varied[key]} already")
            varied[key] = axis.source
    number = math.prod(len(axis.points) for axis in axes)
    if number > MOST:
        raise ConfigError(axes[-1].source, f"makes {number} points", f"{MOST} at most")
    return [
        {key: value for part in parts for key, value in part.items()} for parts in product(*(a.points for a in axes))
    ]


def folder_name(point: Point) -> str:
    """A name that says what a point is: seed last, no two points alike, nothing that a shell would stumble over.

    Those of one setting are the same but for the seed, however long, so that launch.results --rows finds them.
    """
    items = sorted(point.items(), key=lambda item: (item[0] == "seed", item[0]))
    own = [f"{key}={_safe(value)}" for key, value in items]
    end = f",{own.pop()}" if _SEED.fullmatch(point.get("seed", "")) and len(own) > 1 else ""
    name = ",".join(own)
    if len(name) <= _LONGEST:
        whole = all(_safe(value) == value for value in point.values())
        return f"{name}{end}" if whole else f"{name}{end}~{_digest(items)}"
    return f"{name[:_LONGEST]}~{_digest(items[: len(own)])}{end}"


def _digest(items: Sequence[tuple[str, str]]) -> str:
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()[:12]


def _safe(value: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.+-]", "-", value)
