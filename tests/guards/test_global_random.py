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


DRAWS = "import random\nimport numpy as np\nimport torch\nrandom.random(), np.random.rand(), torch.rand(1)\n"
READ = "import functools, random\n@functools.cache\ndef once():\n    return random.random()\n"


def states() -> list[object]:
    return [state() for state in global_random.STATES.values()]


@pytest.mark.parametrize(
    ("drawn", "place"),
    [("", None), ("random.random()", "reads_by_it.py:7: read"), ("once()", "read")],
    ids=["nothing", "each time", "the first time"],
)
@pytest.mark.parametrize("how", ["import seeds_itself", "importlib.import_module('seeds_itself')"])
def test_modules_may_draw_when_they_are_first_imported_but_not_who_imports_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, drawn: str, place: str | None
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "seeds_itself.py").write_text(DRAWS)
    (tmp_path / "reads_by_it.py").write_text(f"{READ}def read():\n    import importlib; {how}\n    {drawn}\n")
    read = importlib.import_module("reads_by_it").read
    told = ""
    before = states()
    try:
        with refuse_global_draws("read", "from a key", read):
            read()
    except RunError as error:
        told = str(error)
    assert (states() == before) == (not drawn)
    assert bool(told) == bool(drawn)
    assert not place or told.startswith(f"{place} draws from Python's global generator")


def test_modules_draw_as_ever_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "seeds_itself.py").write_text(DRAWS)
    with refuse_global_draws("it", "from a key", lambda: None):
        pass
    before = states()
    importlib.import_module("seeds_itself")
    after = states()
    assert [a != b for a, b in zip(after, before, strict=True)] == [True, False, True, True], "a GPU has no part in it"
