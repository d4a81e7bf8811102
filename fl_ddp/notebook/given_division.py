"""A division of samples that a notebook has, as the JSON file that the partition FromFile reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from fl_ddp.errors import ConfigError, one_line
from fl_ddp.notebook.given_file import GivenFile
from fl_ddp.partitions.partition import overlapping
from fl_ddp.protocol import Indices

_ACCEPTED = "whole numbers from 0 up, each once"


def is_by_client(given: Mapping[object, object]) -> bool:
    """Whether a mapping has clients, numbers, for keys, or texts of them as JSON has; not names, as of options."""
    return bool(given) and all(isinstance(key, int | np.integer) or str(key).isdecimal() for key in given)


def as_division(given: Sequence[object] | Mapping[Any, object]) -> list[Indices]:
    """The sample indices of each client, ascending; several clients may have the same ones.

    Args:
        given: of each client, by its place or its number, an array of numpy's, a tensor, or what numpy makes an array
            of.

    Raises:
        ConfigError: there are no clients, or a client's are not whole numbers from 0 up, each once.
    """
    if isinstance(given, Mapping):
        given = {int(key): each for key, each in given.items()}
        if missing := [client for client in range(len(given)) if client not in given]:
            what = f"has {len(given)} clients, of which none is {missing[0]}"
            raise ConfigError("partition", what, f"numbers from 0 to {len(given) - 1} for keys")
        given = [given[client] for client in range(len(given))]
    if not len(given):
        raise ConfigError("partition", "has no clients", "sample indices of each client")
    return [_of_client(client, each) for client, each in enumerate(given)]


def _of_client(client: int, given: object) -> Indices:
    try:
        array = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    except (TypeError, ValueError):
        array = np.array(None)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise ConfigError(
            "partition", f"client {client} has {type(given).__name__} {one_line(repr(given)):.60}", _ACCEPTED
        )
    indices, times = np.unique(array.astype(np.int64), return_counts=True)
    if (wrong := indices[(indices < 0) | (times > 1)]).size:
        raise ConfigError("partition", f"client {client} has {wrong[0]}{' twice' * bool(wrong[0] >= 0)}", _ACCEPTED)
    return indices


def division_file(division: Sequence[Indices]) -> GivenFile:
    """What FromFile reads."""
    parts = [part.tolist() for part in division]
    content = json.dumps({"overlap": overlapping(division), "clients": parts}).encode()
    return GivenFile.of(content, ".json")
