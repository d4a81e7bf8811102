"""Whether somebody drew from the global generators of torch, numpy or Python, which no seed of a run decides."""

from __future__ import annotations

import ctypes
import linecache
import random  # noqa: TID251
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.random import mtrand

from fl_ddp.errors import RunError, is_users, place_of
from fl_ddp.guards.drawn_by_imports import imports_undone

if TYPE_CHECKING:
    from _typeshed import TraceFunction


_BYTES_OF_MT19937 = 4 * 624 + 4
"""Its words, and the place among them."""
_without_normal = b""
"""Words beside which no drawn number was left."""


def _of_torch() -> object:
    return torch.get_rng_state().numpy().tobytes()


def _of_cuda() -> object:
    """None as long as nobody has asked for a GPU."""
    asked_for: bool = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.cuda.get_rng_state().numpy().tobytes() if asked_for else None


def _of_numpy() -> object:
    """Read where it lies: get_state() makes 624 numbers of Python's of it, and a round looks twelve times.

    Who seeds it as it was once before and leaves one of two normal numbers over is not seen.
    """
    global _without_normal
    generator = mtrand.get_bit_generator()
    if not isinstance(generator, np.random.MT19937):
        return repr(np.random.get_state(legacy=False))
    words = ctypes.string_at(generator.ctypes.state_address, _BYTES_OF_MT19937)
    normal = (0, 0.0)
    if words != _without_normal:  # who draws normal numbers one by one leaves every other one beside the words
        state = np.random.get_state(legacy=False)
        assert isinstance(state, dict)
        normal = state["has_gauss"], state["gauss"]
        _without_normal = _without_normal if state["has_gauss"] else words
    return words, *normal


STATES: Mapping[str, Callable[[], object]] = {
    "torch": _of_torch, "torch.cuda": _of_cuda, "numpy": _of_numpy, "Python": random.getstate,
}  # fmt: skip
"""The state of each library's global generator, as something that can be compared."""


def _drew(library: str, before: object) -> bool:
    return before is not None and STATES[library]() != before


@contextmanager
def refuse_global_draws(what: str, instead: str, again: Callable[[], object]) -> Iterator[None]:
    """Refuse a block that draws from a global generator.

    What a module draws when it is imported for the first time is undone: some of a library do for themselves.

    Args:
        what: it does, for the message.
        instead: what to draw from.
        again: does the same, or a part of it, to find the line; only called if the block is refused.

    Raises:
        RunError: it did; the message names library and line.
    """
    before = {library: state() for library, state in STATES.items()}
    with imports_undone():
        yield
    for library in [library for library in STATES if _drew(library, before[library])]:
        drawn = find_draw(again, library)
        where = f"{place_of(*drawn)}: " if drawn else ""
        line = f" ({linecache.getline(*drawn).strip()})" if drawn else ""
        draws = f"{where}{what} draws from {library}'s global generator{line}"
        raise RunError(f"{draws}, which no seed of a run decides; draw {instead}")


def find_draw(work: Callable[[], object], library: str) -> tuple[str, int] | None:
    """The first line of a user's code that draws from a global generator: its file and number, if there is one.

    Args:
        work: what has drawn before and is done again, line by line; errors of it count for nothing.
        library: whose generator it is.
    """
    # of this library alone: torch's states cannot be looked at inside of its function transforms
    before = STATES[library]()
    found: list[tuple[str, int]] = []
    line_of: dict[FrameType, int] = {}

    def look(frame: FrameType, event: str, _: object) -> TraceFunction | None:
        """Compare before each line what the one before it has drawn."""
        if found or not is_users(frame.f_code.co_filename):
            return None
        if event in ("line", "return"):
            if _drew(library, before):
                found.append((frame.f_code.co_filename, line_of.get(frame, frame.f_lineno)))
                return None
            line_of[frame] = frame.f_lineno
        return look

    tracer = sys.gettrace()
    sys.settrace(look)
    try:
        with suppress(Exception):
            work()
    finally:
        sys.settrace(tracer)
    return found[0] if found else None
