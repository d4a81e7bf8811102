"""Draws from global generators are refused, of a GPU, too, whose generator may not be known from the first."""

from __future__ import annotations

import importlib
from pathlib import Path

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


@pytest.mark.parametrize(("drawn", "refused"), [("", False), ("random.random()", True)])
def test_modules_may_draw_when_they_are_first_imported_but_not_who_imports_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawn: str, refused: bool
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "seeds_itself.py").write_text("import random\nrandom.random()\n")
    (tmp_path / "reads_by_it.py").write_text(f"import random\ndef read():\n    import seeds_itself\n    {drawn}\n")
    read = importlib.import_module("reads_by_it").read
    told = ""
    try:
        with refuse_global_draws("read", "from a key", read):
            read()
    except RunError as error:
        told = str(error)
    assert ("reads_by_it.py:4: read draws from Python's global generator (random.random())" in told) == refused
    assert bool(told) == refused
