"""Draws from global generators are refused, of a GPU, too, whose generator may not be known from the first."""

from __future__ import annotations

import pytest

from fl_ddp.errors import RunError
from fl_ddp.guards import global_random
from fl_ddp.guards.global_random import refuse_global_draws


@pytest.mark.parametrize(
    ("before", "after", "refused"), [(None, b"1", False), (b"1", b"1", False), (b"1", b"2", True), (None, None, False)]
)
def test_a_gpus_generator_that_nobody_knew_has_not_been_drawn_from(
    monkeypatch: pytest.MonkeyPatch, before: bytes | None, after: bytes | None, refused: bool
) -> None:
    state = before
    monkeypatch.setitem(global_random.STATES, "torch.cuda", lambda: state)
    told = ""
    try:
        with refuse_global_draws("it", "from a key", lambda: None):
            state = after
    except RunError as error:
        told = str(error)
    assert told.startswith("it draws from torch.cuda's global generator") == refused
    assert bool(told) == refused
