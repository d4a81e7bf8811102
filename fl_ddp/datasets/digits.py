"""The handwritten digits that come with scikit-learn: real data without a download."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from fl_ddp.datasets.dataset import Arrays, Dataset

_FILE = "datasets/data/digits.csv.gz"


@dataclass(frozen=True)
class Digits(Dataset):
    """1,797 handwritten digits of 8 x 8 pixels, divided by 16; every fifth image is the test set.

    Source: Alpaydin and Kaynak 1998, UCI Optical Recognition of Handwritten Digits (its test part).
    """

    def read(self) -> Arrays:
        """Read the images scikit-learn carries, as float32 in [0, 1], [1437, 1, 8, 8] and [360, 1, 8, 8]."""
        pixels, labels = _read()
        x = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
        y = labels.astype(np.int64)
        test = np.arange(len(y)) % 5 == 0
        return Arrays(x[~test], y[~test], x[test], y[test], tuple(str(digit) for digit in range(10)))


def _read() -> tuple[np.ndarray, np.ndarray]:
    """Pixels [1797, 64] and labels [1797]; of the file itself, as scikit-learn takes a second to import."""
    found = find_spec("sklearn")
    for folder in (found and found.submodule_search_locations) or ():
        if (file := Path(folder) / _FILE).is_file():
            table = np.loadtxt(file, delimiter=",")
            return table[:, :-1], table[:, -1]
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    return pixels, labels
