"""Errors that other processes send."""

from __future__ import annotations

from copy import deepcopy

import pytest

from fl_ddp.errors import ConfigError, DivergedError, ElsewhereError, InterruptedRunError, RunError

ERRORS = [
    ConfigError("--lr", "is no number", "0.1"),
    ConfigError("--lr", "is no number").within("a.yaml"),
    DivergedError("theta of client 3 is infinite"),
    ElsewhereError(2, user_error=True),
    RunError("the disk is full"),
    InterruptedRunError("stopped"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_that_is_sent_says_the_same(error: Exception) -> None:
    """A pool of processes whose error cannot be read breaks, and says nothing of it."""
    again = deepcopy(error)  # as pickle does
    assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
