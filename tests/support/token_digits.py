"""The digits of scikit-learn as tokens: the brightness of some of their pixels, one after another."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

LENGTH, TOKENS = 12, 17


def write_tokens(file: Path, samples: int = 1797) -> None:
    """Write a .npz of so many samples [N, LENGTH] of TOKENS tokens; every fifth one is for the test."""
    pixels, y = (array[:samples] for array in load_digits(return_X_y=True))
    x, test = pixels[:, 18 : 18 + LENGTH].astype(np.int64), np.arange(samples) % 5 == 0
    np.savez(file, x_train=x[~test], y_train=y[~test], x_test=x[test], y_test=y[test])
