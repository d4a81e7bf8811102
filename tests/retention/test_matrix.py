"""What the accuracies after each task say, by hand."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest

from fl_ddp.retention.figure import task_figure
from fl_ddp.retention.matrix import (
    OF_TASKS,
    average_accuracy,
    average_forgetting,
    backward_transfer,
    forward_transfer,
    incremental_accuracy,
    of_tasks,
    own_average_accuracy,
    own_average_forgetting,
)

SIZES = (6, 2, 4)
MATRIX = {0: (0.1, 0.2, 0.1), 1: (0.9, 0.3, 0.2), 2: (0.95, 0.8, 0.4), 3: (0.5, 0.6, 0.7)}


def test_three_tasks() -> None:
    assert average_accuracy(MATRIX) == pytest.approx((0.5 + 0.6 + 0.7) / 3)
    after = 0.9, (6 * 0.95 + 2 * 0.8) / 8, (6 * 0.5 + 2 * 0.6 + 4 * 0.7) / 12  # on all samples so far
    assert incremental_accuracy(MATRIX, SIZES) == pytest.approx(sum(after) / 3)
    assert average_forgetting(MATRIX) == pytest.approx(((0.95 - 0.5) + (0.8 - 0.6)) / 2)
    assert backward_transfer(MATRIX) == pytest.approx(((0.5 - 0.9) + (0.6 - 0.8)) / 2)
    assert forward_transfer(MATRIX) == pytest.approx(((0.3 - 0.2) + (0.4 - 0.1)) / 2)


def test_what_a_task_could_before_it_was_trained_is_not_forgotten() -> None:
    lucky = MATRIX | {1: (0.9, 0.85, 0.2)}
    assert average_forgetting(lucky) == average_forgetting(MATRIX)


def test_a_run_in_its_second_task_counts_the_tasks_so_far() -> None:
    so_far = {task: MATRIX[task][: max(task, 1)] for task in (0, 1, 2)} | {0: MATRIX[0], 1: MATRIX[1]}
    assert average_accuracy(so_far) == pytest.approx((0.95 + 0.8) / 2)
    assert incremental_accuracy(so_far, SIZES) == pytest.approx((0.9 + (6 * 0.95 + 2 * 0.8) / 8) / 2)
    assert average_forgetting(so_far) == pytest.approx(0.9 - 0.95)
    assert backward_transfer(so_far) == pytest.approx(0.95 - 0.9)
    assert forward_transfer(so_far) == pytest.approx(0.3 - 0.2)


def test_nothing_is_known_before_the_first_task_and_nothing_forgotten_in_it() -> None:
    nothing = dict.fromkeys(OF_TASKS)
    assert of_tasks({}, ()) == of_tasks({}, SIZES) == of_tasks({0: MATRIX[0]}, SIZES) == nothing
    first = {0: MATRIX[0], 1: MATRIX[1]}
    assert average_accuracy(first) == incremental_accuracy(first, SIZES) == 0.9
    assert average_forgetting(first) is backward_transfer(first) is forward_transfer(first) is None


def test_the_figure_has_a_cell_for_each_task_after_each() -> None:
    (axes,) = (axes for axes in task_figure(MATRIX).axes if axes.get_xlabel())
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("tested on task", "after task")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["none", "1", "2", "3"]
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    assert cells == {(j, i): f"{100 * value:.0f}" for i, row in MATRIX.items() for j, value in enumerate(row)}


def test_what_a_missing_row_would_tell_is_not_known() -> None:
    """A model without statistics of its own is not tested after a round in which nobody trains."""
    after = {task: MATRIX[task] for task in (1, 2, 3)}
    assert forward_transfer(after) is None and backward_transfer(after) == backward_transfer(MATRIX)
    gap = {task: MATRIX[task] for task in (0, 1, 3)}
    assert average_accuracy(gap) == average_accuracy(MATRIX)
    assert incremental_accuracy(gap, SIZES) is average_forgetting(gap) is backward_transfer(gap) is None
    assert forward_transfer(gap) is None
    short = MATRIX | {1: (0.9,)}
    assert forward_transfer(short) is None and average_forgetting(short) == average_forgetting(MATRIX)


def test_tasks_that_are_still_to_come_are_pale() -> None:
    (image,) = (image for axes in task_figure(MATRIX).axes if axes.get_xlabel() for image in axes.images)
    pale, full = 0.35, 1.0
    assert np.asarray(image.get_alpha()).tolist() == [
        [pale, pale, pale], [full, pale, pale], [full, full, pale], [full, full, full],
    ]  # fmt: skip


def test_clients_have_tasks_of_their_own() -> None:
    """The first one left and came back, the second has joined with the second task, the third has the last one."""
    clients = {
        0: {1: [0.9], 2: [0.7, nan], 3: [0.8, nan, 0.6]},
        1: {2: [nan, 0.5], 3: [nan, 0.75, nan]},
        2: {3: [nan, nan, 0.4]},
    }
    assert own_average_accuracy(clients) == pytest.approx(((0.8 + 0.6) / 2 + 0.75 + 0.4) / 3)
    assert own_average_forgetting(clients) == pytest.approx(((0.9 - 0.8) + (0.5 - 0.75)) / 2)
    assert own_average_forgetting({2: clients[2]}) is None and own_average_accuracy({}) is None
    whole = {task: row[:task] for task, row in MATRIX.items() if task}
    assert own_average_accuracy({0: whole}) == average_accuracy(whole)
    assert own_average_forgetting({0: whole}) == average_forgetting(whole)
