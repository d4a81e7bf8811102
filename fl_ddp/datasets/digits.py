"""The handwritten digits that come with scikit-learn: real data without a download."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fl_ddp.datasets.dataset import Arrays, Dataset


@dataclass(frozen=True)
class Digits(Dataset):
    """1,797 handwritten digits of 8 x 8 pixels, divided by 16; every fifth image is the test set.

    Source: Alpaydin and Kaynak 1998, UCI Optical Recognition of Handwritten Digits (its test part).
    """

    def read(self) -> Arrays:
        """Read the images scikit-learn carries, as float32 in [0, 1], [1437, 1, 8, 8] and [360, 1, 8, 8]."""
        from sklearn.datasets import load_digits  # takes a second to import: only runs on this data pay for it

        pixels, labels = load_digits(return_X_y=True)
        x = (pixels / 16).astype(np.float32).reshape(-1, 1, 8, 8)
        y = labels.astype(np.int64)
        test = np.arange(len(y)) % 5 == 0
        return Arrays(x[~test], y[~test], x[test], y[test], tuple(str(digit) for digit in range(10)))
