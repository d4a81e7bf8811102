"""What accuracies after each task, on each task, say of learning one after the other.

Rows are the tasks that a model was trained on last, row 0 the initial model; columns are the tasks it is tested on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

Matrix = Mapping[int, Sequence[float]]
"""Accuracies [tasks] by the task trained last, from 1, 0 before any; a row may end with the tasks so far."""


def _last(matrix: Matrix) -> int:
    return max(matrix, default=0)


def average_accuracy(matrix: Matrix) -> float | None:
    """Mean accuracy on the tasks so far, R_kj over j = 1 to k. Source: Lopez-Paz and Ranzato 2017 (GEM), ACC."""
    k = _last(matrix)
    return fmean(matrix[k][:k]) if k else None


def average_forgetting(matrix: Matrix) -> float | None:
    """Mean over the tasks before k of max over l < k of R_lj, less R_kj. Source: Chaudhry et al. 2018 (RWalk), Eq. 3.

    A task's accuracies count from when it has been trained.
    """
    k = _last(matrix)
    lost = [max(matrix[row][j - 1] for row in matrix if j <= row < k) - matrix[k][j - 1] for j in range(1, k)]
    return fmean(lost) if lost else None


def backward_transfer(matrix: Matrix) -> float | None:
    """Mean over the tasks before k of R_kj - R_jj. Source: GEM, BWT."""
    k = _last(matrix)
    gained = [matrix[k][j - 1] - matrix[j][j - 1] for j in range(1, k)]
    return fmean(gained) if gained else None


def forward_transfer(matrix: Matrix) -> float | None:
    """Mean over the tasks from the second to k of R_(j-1)j - R_0j. Source: GEM, FWT."""
    k = _last(matrix)
    gained = [matrix[j - 1][j - 1] - matrix[0][j - 1] for j in range(2, k + 1)]
    return fmean(gained) if gained else None
