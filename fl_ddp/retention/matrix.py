"""What accuracies after each task, on each task, say of learning one after the other.

Rows are the tasks that a model was trained on last, row 0 the initial model; columns are the tasks it is tested on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import isnan, nan
from statistics import fmean

Matrix = Mapping[int, Sequence[float]]
"""Accuracies [tasks] by the task trained last, from 1, 0 before any; a row may end with the tasks so far.

A row that is missing, as a model may have nothing to be tested with, leaves nothing to say of what it is asked for.
"""

Clients = Mapping[int, Matrix]
"""One of each client, of its own test samples; not a number on tasks of which it has none."""


def _last(matrix: Matrix) -> int:
    return max(matrix, default=0)


def _accuracy(matrix: Matrix, row: int, task: int) -> float:
    """On a task, from 1; not a number where it is not known."""
    known = matrix.get(row, ())
    return known[task - 1] if task <= len(known) else nan


def _mean(numbers: Sequence[float]) -> float | None:
    return None if not numbers or any(map(isnan, numbers)) else fmean(numbers)


def _mean_of_clients(each: Iterable[Sequence[float]]) -> float | None:
    """Mean over clients of the mean of each one's numbers, as far as they are known."""
    known = [[number for number in numbers if not isnan(number)] for numbers in each]
    return _mean([fmean(numbers) for numbers in known if numbers])


def average_accuracy(matrix: Matrix) -> float | None:
    """Mean accuracy on the tasks so far, R_kj over j = 1 to k. Source: Lopez-Paz and Ranzato 2017 (GEM), ACC."""
    k = _last(matrix)
    return _mean([_accuracy(matrix, k, j) for j in range(1, k + 1)])


def incremental_accuracy(matrix: Matrix, samples: Sequence[int]) -> float | None:
    """Mean over the tasks so far of the accuracy after each, on the test samples of all tasks up to it together.

    Args:
        matrix: of the run.
        samples: for the test, of each task that is known.

    Source: Rebuffi et al. 2017 (iCaRL), section 4.
    """
    k = _last(matrix)
    if len(samples) < k:
        return None
    after = [[_accuracy(matrix, task, j) for j in range(1, task + 1)] for task in range(1, k + 1)]
    return _mean([fmean(row, samples[: len(row)]) for row in after])


def average_forgetting(matrix: Matrix) -> float | None:
    """Mean over the tasks before k of max over l < k of R_lj, less R_kj. Source: Chaudhry et al. 2018 (RWalk), Eq. 3.

    A task's accuracies count from when it has been trained.
    """
    return _mean(_lost(matrix))


def _lost(matrix: Matrix) -> list[float]:
    """Of each task before the last one what it has lost; not a number where that is not known."""
    k = _last(matrix)
    best = [max([_accuracy(matrix, row, j) for row in matrix if j <= row < k], default=nan) for j in range(1, k)]
    return [most - _accuracy(matrix, k, j) for j, most in enumerate(best, 1)]


def backward_transfer(matrix: Matrix) -> float | None:
    """Mean over the tasks before k of R_kj - R_jj. Source: GEM, BWT."""
    k = _last(matrix)
    return _mean([_accuracy(matrix, k, j) - _accuracy(matrix, j, j) for j in range(1, k)])


def forward_transfer(matrix: Matrix) -> float | None:
    """Mean over the tasks from the second to k of R_(j-1)j - R_0j. Source: GEM, FWT."""
    k = _last(matrix)
    return _mean([_accuracy(matrix, j - 1, j) - _accuracy(matrix, 0, j) for j in range(2, k + 1)])


def own_average_accuracy(clients: Clients) -> float | None:
    """average_accuracy of each client's tasks so far, mean over the clients."""
    return _mean_of_clients([_accuracy(m, _last(m), j) for j in range(1, _last(m) + 1)] for m in clients.values())


def own_average_forgetting(clients: Clients) -> float | None:
    """average_forgetting of each client's tasks that were tested before, mean over the clients that have such."""
    return _mean_of_clients(map(_lost, clients.values()))


def of_tasks(matrix: Matrix, samples: Sequence[int]) -> dict[str, float | None]:
    """What tasks.csv says of learning, by the name in summary.json; arguments as of incremental_accuracy."""
    return {
        "average_accuracy": average_accuracy(matrix),
        "incremental_accuracy": incremental_accuracy(matrix, samples),
        "average_forgetting": average_forgetting(matrix),
        "backward_transfer": backward_transfer(matrix),
        "forward_transfer": forward_transfer(matrix),
    }


OF_TASKS = tuple(of_tasks({}, ()))
"""Names of that."""
OF_OWN_TASKS: Mapping[str, Callable[[Clients], float | None]] = {
    "own_average_accuracy": own_average_accuracy,
    "own_average_forgetting": own_average_forgetting,
}
"""What own_tasks.csv does, likewise."""
