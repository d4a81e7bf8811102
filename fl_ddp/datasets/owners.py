"""Names of clients beside samples, as the data have them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fl_ddp.protocol import Indices, Owners


def owners_of(train: Sequence[str], test: Sequence[str] | None = None) -> Owners:
    """The clients in the order of their names, whole numbers by their size.

    Args:
        train: name of each training sample's client.
        test: of each test sample's; None where the data do not say it.
    """
    found = {*train, *(test or ())}
    numbers = all(name.isdecimal() and name.isascii() for name in found)
    names = sorted(found, key=lambda name: (int(name), name) if numbers else (0, name))
    place = {name: index for index, name in enumerate(names)}

    def places(of: Sequence[str]) -> Indices:
        return np.array([place[name] for name in of], np.int64)

    return Owners(tuple(names), places(train), None if test is None else places(test))
