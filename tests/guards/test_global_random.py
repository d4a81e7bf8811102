"""Draws from global generators are refused, of a GPU, too, whose generator may not be known from the first."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.random import mtrand

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


def seeded(seed: int) -> None:
    """Numpy's global generator begins anew, as after its seed()."""
    np.random.set_state(np.random.RandomState(seed).get_state())


@pytest.fixture
def beginning() -> Iterator[None]:
    """Numpy's global generator is at its beginning, and behind a test as it was."""
    generator, state = mtrand.get_bit_generator(), np.random.get_state()
    seeded(3)
    yield
    mtrand.set_bit_generator(generator)
    np.random.set_state(state)


def numpys_own() -> object:
    """The same state as numpy tells it."""
    state = np.random.get_state()
    assert isinstance(state, tuple)
    _, words, *rest = state
    return words.tobytes(), *rest


STEPS: dict[str, Callable[[], object]] = {
    "uniform": np.random.rand, "normal": np.random.randn, "two": lambda: np.random.randn(2), "again": lambda: seeded(3),
}  # fmt: skip


@given(st.lists(st.sampled_from([*STEPS]), max_size=8))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("beginning")
def test_numpys_state_is_another_where_numpy_says_so(steps: list[str]) -> None:
    seeded(3)
    found = [(global_random.STATES["numpy"](), numpys_own())]
    for step in steps:
        STEPS[step]()
        found.append((global_random.STATES["numpy"](), numpys_own()))
    for (ours, numpys), (others, theirs) in combinations(found, 2):
        assert (ours == others) == (numpys == theirs)


@pytest.mark.usefixtures("beginning")
@pytest.mark.parametrize("drawn", [0, 1, 2])
def test_a_normal_number_that_was_left_over_is_drawn_too(drawn: int) -> None:
    np.random.randn(drawn)  # of two that are made at a time
    with (
        pytest.raises(RunError, match="it draws from numpy's global generator"),
        refuse_global_draws("it", "from a key", lambda: None),
    ):
        np.random.randn()


@pytest.mark.usefixtures("beginning")
@pytest.mark.parametrize("generator", [np.random.PCG64, np.random.Philox, np.random.MT19937])
def test_numpys_global_generator_may_be_another(generator: type[np.random.PCG64]) -> None:
    mtrand.set_bit_generator(generator(1))
    with refuse_global_draws("it", "from a key", lambda: None):
        pass
    with (
        pytest.raises(RunError, match="it draws from numpy's global generator"),
        refuse_global_draws("it", "from a key", lambda: None),
    ):
        np.random.rand()


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
