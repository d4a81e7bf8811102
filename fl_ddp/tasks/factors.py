"""A factor of each client's own, drawn by a law or read from a file."""

from __future__ import annotations

import math
import re

import numpy as np

from fl_ddp.errors import ConfigError
from fl_ddp.partitions.counts_file import is_count, rows_under
from fl_ddp.protocol import Factors
from fl_ddp.reading.homes import users_path

HEAD = ["client", "factor"]
FORM = "uniform(low,high), loguniform(low,high) with 0 < low <= high, or a CSV file client,factor of numbers above 0"
_LAW = re.compile(r"(uniform|loguniform)\(([^,()]+),([^,()]+)\)")


def factors(option: str, text: str, draws: Factors) -> Factors:
    """The factor of each client [K].

    Args:
        option: that gives them, for messages.
        text: a law, or the path of a file; a client without a row there has 1.
        draws: [K] uniform in [0, 1).

    Raises:
        ConfigError: there is no such law, or the file is broken.
    """
    if text.endswith(".csv"):
        return _of_file(option, text, len(draws))
    law = _LAW.fullmatch(text.replace(" ", ""))
    low, high = (_positive(law[2]), _positive(law[3])) if law else (None, None)
    if law is None or low is None or high is None or low > high:
        raise ConfigError(option, f"{text} is no law", FORM)
    if law[1] == "uniform":
        return low + (high - low) * draws
    return low * np.exp(math.log(high / low) * draws)


def as_text(found: Factors | None) -> str:
    """The factors of all clients [K] as a file; empty if there are none."""
    if found is None:
        return ""
    rows = [HEAD, *([str(client), repr(float(factor))] for client, factor in enumerate(found))]
    return "".join(f"{','.join(row)}\n" for row in rows)


def _of_file(option: str, path: str, num_clients: int) -> Factors:
    rows = rows_under(users_path(option, path), HEAD, lambda what: ConfigError(option, f"{path} {what}", FORM))
    found: dict[int, float] = {}
    for row in ([word.strip() for word in row] for row in rows):
        text = f"{path}: {','.join(row)!r}"
        factor = _positive(row[1]) if len(row) == len(HEAD) and is_count(row[0]) else None
        if factor is None:
            raise ConfigError(option, f"{text} is no factor of a client", FORM)
        if int(row[0]) >= num_clients:
            raise ConfigError(option, f"{text}: there are {num_clients} clients, numbered from 0")
        if int(row[0]) in found:
            raise ConfigError(option, f"{text}: client {row[0]} has a factor already")
        found[int(row[0])] = factor
    return np.array([found.get(client, 1.0) for client in range(num_clients)])


def _positive(word: str) -> float | None:
    """The number above 0 that a text is, if it is one."""
    try:
        value = float(word)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None
