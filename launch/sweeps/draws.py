"""Random points of a sweep."""

from __future__ import annotations

import math
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from fl_ddp.config.options import suggestion
from fl_ddp.engine.seeds import Purpose, generator
from fl_ddp.errors import ConfigError
from launch.input.values import MOST, comma_parts, read_values
from launch.sweeps.points import Axis, Point, key_and_rest

_FORMS = {"uniform": "uniform(0.01,0.1)", "loguniform": "loguniform(1e-3,10)", "choice": "choice(1,2,3)"}
_ACCEPTED = f"key={', '.join(_FORMS.values())}"


@dataclass(frozen=True)
class Law:
    """What values are drawn by.

    Attributes:
        value: draws one, as the command line writes it.
        rounded: whether that is a number of six digits, of which there are not as many as wanted.
    """

    value: Callable[[np.random.Generator], str]
    rounded: bool = False

    def __call__(self, numbers: np.random.Generator) -> str:
        """One value."""
        return self.value(numbers)


def draw(number: int, laws: Mapping[str, Law], seed: int) -> Axis:
    """Points that all differ; more of them begin with the same ones, and a key's draws do not depend on other keys.

    Args:
        number: of points.
        laws: by key.
        seed: of the draws.

    Raises:
        ConfigError: so many different points are not to be had.
    """
    source = f"--random {number}"
    if not 1 <= number <= MOST:
        raise ConfigError(source, "is impossible", f"whole numbers from 1 to {MOST}")
    if not laws:
        raise ConfigError(source, "nothing says of what", f"one --draw or more, such as --draw lr={_FORMS['uniform']}")
    found: dict[tuple[str, ...], Point] = {}
    for index in range(100 * number + 1000):
        point = {key: law(generator(seed, index, Purpose.DRAW, zlib.crc32(key.encode()))) for key, law in laws.items()}
        found.setdefault(tuple(point.values()), point)
        if len(found) == number:
            return Axis(source, tuple(found.values()))
    few = f"the draws give {len(found)} different point{'s' * (len(found) > 1)} only"
    why = ", as numbers are rounded to six digits" if any(law.rounded for law in laws.values()) else ""
    raise ConfigError(source, f"{few}{why}", f"{len(found)} at most")


def read_laws(texts: Sequence[str]) -> dict[str, Law]:
    """Laws by key, written as lr=uniform(0.01,0.1), method.lam=loguniform(1e-3,10) or method.q=choice(1,2,3).

    Raises:
        ConfigError: one is malformed, or two are of the same key.
    """
    laws: dict[str, Law] = {}
    for text in texts:
        source = f"--draw {text}"
        key, law = key_and_rest(text, source, _ACCEPTED)
        if key in laws:
            raise ConfigError(source, f"{key} is drawn already")
        laws[key] = _law(law, source)
    return laws


def _law(text: str, source: str) -> Law:
    match = re.fullmatch(r"\s*(\w+)\s*\((.*)\)\s*", text)
    if not match:
        raise ConfigError(source, f"{text} is no law", _ACCEPTED)
    name, arguments = match[1], match[2]
    if name == "choice":
        return Law(partial(_one_of, read_values(arguments, source)))
    if name not in _FORMS:
        near = suggestion(name, _FORMS)
        raise ConfigError(source, f"{name} is unknown{f'; did you mean {near}?' if near else ''}", _ACCEPTED)
    try:
        low, high = (float(each) for each in comma_parts(arguments, source))
    except ValueError:
        raise ConfigError(source, f"({arguments}) are no bounds", _FORMS[name]) from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high) or (name == "loguniform" and low <= 0):
        positive = "0 < low < high" if name == "loguniform" else "low < high"
        raise ConfigError(source, f"({arguments}) are no bounds", f"{positive}, as in {_FORMS[name]}")
    return Law(partial(_log_between if name == "loguniform" else _between, low, high), rounded=True)


def _one_of(values: Sequence[str], numbers: np.random.Generator) -> str:
    return values[int(numbers.integers(len(values)))]


def _between(low: float, high: float, numbers: np.random.Generator) -> str:
    return _rounded(low + (high - low) * numbers.random(), low, high)


def _log_between(low: float, high: float, numbers: np.random.Generator) -> str:
    return _rounded(low * (high / low) ** numbers.random(), low, high)


def _rounded(value: float, low: float, high: float) -> str:
    """Six digits, which folders' names have room for, but never out of bounds."""
    value = min(max(value, low), high)
    text = f"{value:.6g}"
    return text if low <= float(text) <= high else repr(value)
