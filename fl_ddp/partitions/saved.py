"""A partition as a JSON file: written beside every run, and read as a user's own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import numpy as np

from fl_ddp.errors import ConfigError
from fl_ddp.host.atomic_file import write_text
from fl_ddp.partitions.partition import overlapping
from fl_ddp.protocol import Indices, Origin
from fl_ddp.reading.json_file import read_json

FORM = '{"clients": [[sample indices of client 0], ...]}'


@dataclass(frozen=True)
class SavedPartition:
    """A division of a training set.

    Attributes:
        clients: training indices of each client, ascending.
        local_test: indices of each client's own test data; None if there are none.
        local_test_from: set that they are of: train, kept aside, or test.
        kind: name of the partition it came from; None if not known.
        seed: of the division; None if not known.
        num_samples: size of the training set divided; None if not known.
        counts: training samples of each client by the name of the class, those it has none of left out; for readers
            of the file, None if not known.
        names: of the clients, as the data have them; for readers of the file, empty if they have none.
    """

    clients: list[Indices]
    local_test: list[Indices] | None = None
    kind: str | None = None
    seed: int | None = None
    num_samples: int | None = None
    local_test_from: Origin = "train"
    counts: Sequence[Mapping[str, int]] | None = None
    names: Sequence[str] = ()


def write_partition(path: Path, partition: SavedPartition) -> None:
    """Write a partition.json; it appears complete or not at all.

    Raises:
        RunError: it cannot be written.
    """
    content: dict[str, object] = {
        "kind": partition.kind,
        "seed": partition.seed,
        "num_samples": partition.num_samples,
        **({"overlap": True} if overlapping(partition.clients) else {}),
        **({"names": list(partition.names)} if partition.names else {}),
        **({"counts": partition.counts} if partition.counts is not None else {}),
        "clients": [part.tolist() for part in partition.clients],
    }
    if partition.local_test is not None:
        content["local_test_from"] = partition.local_test_from
        content["local_test"] = [part.tolist() for part in partition.local_test]
    write_text(path, json.dumps(content))


def refuse_other_division(path: Path, now: SavedPartition) -> None:
    """Refuse another division of the data than the one that a run began with, which it wrote down.

    Raises:
        ConfigError: the two differ; or as read_partition.
    """
    before, after = ([*each.clients, *(each.local_test or [])] for each in (read_partition(path), now))
    if len(before) != len(after) or not all(map(np.array_equal, before, after)):
        what = "the run was started with another division of the data; restore the file or the data set "
        raise ConfigError(path, f"{what}it was made from")


def read_partition(path: Path) -> SavedPartition:
    """Read a partition.json; only clients must be in it.

    Raises:
        ConfigError: there is no such file, it is not of that form, or an index is negative or given twice (without
            "overlap": true in the file; with it, twice in one client, or for training here and for testing there).
    """
    content = read_json(path, "holds no division in JSON", FORM)
    if "clients" not in content:
        raise ConfigError(path, "has no key clients", FORM)
    clients = _indices(path, "clients", content["clients"])
    local_test = None if content.get("local_test") is None else _indices(path, "local_test", content["local_test"])
    if local_test is not None and len(local_test) != len(clients):
        raise ConfigError(path, f"local_test has {len(local_test)} clients where clients has {len(clients)}")
    kind, seed, num_samples, overlap = (content.get(key) for key in ("kind", "seed", "num_samples", "overlap"))
    origin = content.get("local_test_from", "train")
    if origin not in get_args(Origin):
        raise ConfigError(path, f"local_test_from is {origin!r}", " or ".join(get_args(Origin)))
    for key, value, accepted in (
        ("kind", kind, str),
        ("seed", seed, int),
        ("num_samples", num_samples, int),
        ("overlap", overlap, bool),
    ):
        if value is not None and type(value) is not accepted:
            raise ConfigError(path, f"{key} is {value!r}", f"{accepted.__name__}, or null")
    _check_distinct(path, clients, local_test or [] if origin == "train" else [], bool(overlap))
    for part in local_test or []:
        _check_once(path, part, "each index once in a client's local_test")
    return SavedPartition(clients, local_test, kind, seed, num_samples, origin)


def _indices(path: Path, key: str, lists: object) -> list[Indices]:
    """The lists as ascending arrays."""
    if not isinstance(lists, list) or not all(isinstance(part, list) for part in lists):
        raise ConfigError(path, f"{key} is not a list of lists", FORM)
    for client, part in enumerate(lists):
        wrong: Sequence[object] = [index for index in part if type(index) is not int or not 0 <= index < 2**62]
        if wrong:
            raise ConfigError(path, f"{key}: client {client} has {wrong[0]!r}", "whole numbers from 0 up")
    return [np.sort(np.array(part, np.int64)) for part in lists]


def _check_distinct(path: Path, clients: Sequence[Indices], local_test: Sequence[Indices], overlap: bool) -> None:
    accepted = 'each index once, in one client, or also in others with "overlap": true'
    groups = [*clients, *local_test]
    if overlap:
        accepted = "each index once in a client, and for training or for testing in all clients that have it"
        # each list is looked at by itself, and then all that is trained on beside all that is tested on
        for part in groups:
            _check_once(path, part, accepted)
        groups = [np.unique(np.concatenate([*parts, np.empty(0, np.int64)])) for parts in (clients, local_test)]
    _check_once(path, np.concatenate([*groups, np.empty(0, np.int64)]), accepted)


def _check_once(path: Path, indices: Indices, accepted: str) -> None:
    ordered = np.sort(indices)
    twice = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(twice):
        raise ConfigError(path, f"sample {twice[0]} is given twice", accepted)
