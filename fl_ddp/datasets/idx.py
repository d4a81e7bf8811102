"""The file format of MNIST and its relatives."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from fl_ddp.reading.archives import UNREADABLE

KIND = {1: "labels", 3: "images"}


def read_idx(path: Path, ndim: int) -> npt.NDArray[np.uint8]:
    """Unsigned bytes of an idx file, plain or gzipped.

    Args:
        path: the file; gzipped if its name ends in .gz.
        ndim: 3 for images [N, height, width], 1 for labels [N].

    Raises:
        ValueError: it is no such file or its length is not what its header says; the message reads on after the path.

    Source: http://yann.lecun.com/exdb/mnist, "file formats".
    """
    try:
        raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except UNREADABLE as error:
        raise ValueError(f"cannot be read ({error})") from None
    start = 4 + 4 * ndim
    # Magic number: two zeros, 8 for unsigned bytes, the number of dimensions.
    if len(raw) < 4 or raw[:3] != b"\x00\x00\x08":
        raise ValueError("is not an idx file of unsigned bytes, or is cut short")
    if raw[3] != ndim:
        raise ValueError(f"holds {KIND.get(raw[3], f'{raw[3]}-dimensional data')} where {KIND[ndim]} are expected")
    shape = [int.from_bytes(raw[i : i + 4], "big") for i in range(4, start, 4)]
    if len(raw) != start + math.prod(shape):
        raise ValueError(f"is {len(raw):,} bytes long, its header says {start + math.prod(shape):,}")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape).copy()
