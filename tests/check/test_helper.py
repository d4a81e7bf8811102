"""A helper that fails, hangs or dies is an answer, and the next one is as good as new."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import pytest

from fl_ddp.check.helper import Failure, Helper


@pytest.mark.slow
@pytest.mark.parametrize(
    ("handler", "request_", "limit", "line", "cause"),
    [
        (int, "x", 300.0, "ValueError: invalid literal for int() with base 10: 'x'", True),
        (os._exit, 7, 300.0, "its process ended with exit code 7", True),
        (time.sleep, 600, 1.0, "is not over after 1 s", False),
    ],
)
def test_what_goes_wrong_is_an_answer(
    handler: Callable[[Any], Any], request_: object, limit: float, line: str, cause: bool
) -> None:
    helper = Helper(handler)
    for _ in range(2):
        helper.ask(request_)
        (failure,) = helper.answers(limit)
        assert isinstance(failure, Failure) and (failure.told.line, failure.cause) == (line, cause)
    helper.end()


@pytest.mark.slow
def test_answers_come_one_after_another() -> None:
    counts: Callable[[Any], range] = range
    helper = Helper(counts)
    for size in (3, 2):
        helper.ask(size)
        assert list(helper.answers(300.0)) == list(range(size))
    helper.end()


@pytest.mark.slow
def test_helpers_see_no_gpu() -> None:
    """Behind a fork of a process that has looked at one, torch's compiler asks it in vain, for a CPU's step, too."""
    of_variable: Callable[[Any], Any] = eval
    helper = Helper(of_variable)
    helper.ask("[__import__('os').environ.get('CUDA_VISIBLE_DEVICES')]")
    assert list(helper.answers(300.0)) == [""]
    helper.end()
