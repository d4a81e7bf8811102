"""Factors of clients, and rows of numbers about them, that a notebook has, as the CSV file that their option reads."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from fl_ddp.errors import ConfigError
from fl_ddp.notebook.given_file import GivenFile
from fl_ddp.partitions import class_reduction
from fl_ddp.tasks import availability, factors

_HEADS = {
    "client_lr": factors.HEAD,
    "client_work": factors.HEAD,
    "availability": availability.HEAD,
    "class_reduction": class_reduction.HEAD,
}


def rows_files(content: Mapping[str, object]) -> dict[str, GivenFile]:
    """The files of all options that are rows, by the option.

    Args:
        content: options; factors are a number of each client, by its place or its number, all others rows as their
            file has them, with None where that has nothing.

    Raises:
        ConfigError: one is no such rows.
    """
    return {option: _file(option, given) for option in _HEADS if _is_rows(given := content.get(option))}


def numbers_of_factors(content: Mapping[str, object]) -> dict[str, int]:
    """How many clients have a factor, by the option, where they are given in a row and not by number."""
    of_clients = (option for option, head in _HEADS.items() if head == factors.HEAD)
    given = {option: content.get(option) for option in of_clients}
    return {option: len(g) for option, g in given.items() if _is_rows(g) and not isinstance(g, Mapping)}  # type: ignore[arg-type]


def _is_rows(given: object) -> bool:
    return isinstance(given, Mapping | Sequence | np.ndarray | Tensor) and not isinstance(given, str)


def _file(option: str, given: object) -> GivenFile:
    head = _HEADS[option]
    plain: Any = given.tolist() if isinstance(given, np.ndarray | Tensor) else given
    if not isinstance(plain, Mapping | Sequence):
        raise ConfigError(option, f"{plain} is one number", f"rows {', '.join(head)}")
    rows: Any = plain
    of_clients = head == factors.HEAD
    if of_clients:
        rows = plain.items() if isinstance(plain, Mapping) else enumerate(plain)
    rows = list(rows)
    for row in rows:
        if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != len(head):
            accepted = "a number of each client" if of_clients else f"rows {', '.join(head)}"
            raise ConfigError(option, f"{row!r:.60} is no row", accepted)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerows([head, *(["" if each is None else each for each in row] for row in rows)])
    content = out.getvalue().encode()
    return GivenFile.of(content, ".csv")
