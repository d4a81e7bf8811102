"""The least of a quadratic form on the simplex."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def least_on_simplex(form: Floats) -> Floats:
    """Weights w [m] >= 0 of sum 1 with the least w' A w, exactly.

    With A = R'R this is the point of the convex hull of R's columns that is nearest to zero, w = y / sum(y) of the
    non-negative least squares min |R y|^2 + (sum(y) - 1)^2: for y = s w the least over s is |R w|^2 / (1 + |R w|^2),
    which grows with |R w|.

    Args:
        form: A [m, m], symmetric; eigenvalues below 0, which rounding leaves, count as 0.

    Source: Lawson and Hanson, Solving Least Squares Problems, 1974, chapter 23.
    """
    # its import takes as long as a third of torch's, and every run imports every method
    from scipy.optimize import nnls

    values, vectors = np.linalg.eigh(form)
    root = np.sqrt(values.clip(0))[:, None] * vectors.T
    scale = np.abs(root).max() or 1.0
    y, _ = nnls(np.vstack([root / scale, np.ones(len(form))]), np.append(np.zeros(len(form)), 1.0))
    weights: Floats = y / y.sum()
    return weights
