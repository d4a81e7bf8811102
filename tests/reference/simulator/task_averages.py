"""What metrics.csv says of the tasks so far: GEM's average accuracy, and the forgetting of Chaudhry et al. (RWalk)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from evaluation import Row


def task_averages(course: Sequence[Row], tasks: Sequence[int]) -> Row:
    """average_accuracy A_k and average_forgetting F_k in the last of some evaluations.

    A_k is the mean of a_kj over j = 1 to k, F_k that of max over l = j to k - 1 of a_lj, less a_kj, over j = 1 to
    k - 1, where a_lj is the accuracy on task j at the last evaluation in task l.

    Args:
        course: rows of all evaluations so far, with task/1 and so on.
        tasks: which task, from 1, each was made in.
    """
    a = dict(zip(tasks, course, strict=True))  # of several in a task the last one stays
    k = tasks[-1]
    row = {"average_accuracy": sum(a[k][f"task/{j}"] for j in range(1, k + 1)) / k}
    if k == 1 or any(task not in a for task in range(1, k)):
        return row | {"average_forgetting": math.nan}
    lost = [max(a[task][f"task/{j}"] for task in range(j, k)) - a[k][f"task/{j}"] for j in range(1, k)]
    return row | {"average_forgetting": sum(lost) / (k - 1)}
