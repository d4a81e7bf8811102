"""Work beside the run's own goes on by itself, and what comes of it is heard."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, get_ident

import pytest

from fl_ddp.errors import RunError
from fl_ddp.host.background import Background

LONG = 20.0
"""Seconds after which what does not come is taken to be waited for."""


@pytest.fixture
def beside() -> Iterator[Background]:
    background = Background("the work")
    yield background
    background.close()


def full() -> None:
    raise RunError("no space")


def broken() -> None:
    raise KeyError("x")


def test_nobody_waits_for_it_before_it_is_asked_for(beside: Background) -> None:
    goes_on, done = Event(), list[bool]()
    beside.begin(lambda: done.append(goes_on.wait(LONG)))
    beside.hear()
    assert not done
    goes_on.set()
    beside.settle()
    assert done == [True]


def test_what_goes_wrong_is_told_once(beside: Background) -> None:
    beside.begin(full)
    with pytest.raises(RunError, match=r"^no space$"):
        beside.settle()
    beside.settle()
    beside.begin(broken)
    with pytest.raises(RunError, match=r"^the work failed: KeyError: 'x'$"):
        beside.settle()


def test_it_is_heard_without_waiting_once_it_is_over(beside: Background) -> None:
    goes_on = Event()

    def late() -> None:
        assert goes_on.wait(LONG)
        full()

    beside.begin(late)
    beside.hear()
    goes_on.set()
    with pytest.raises(RunError, match="no space"):
        while True:
            beside.hear()


def test_the_next_piece_begins_when_the_one_before_is_over(beside: Background) -> None:
    done = list[int]()
    beside.begin(lambda: done.append(1))
    beside.begin(lambda: done.append(2))
    beside.settle()
    assert done == [1, 2]
    beside.begin(full)
    with pytest.raises(RunError, match="no space"):
        beside.begin(lambda: done.append(3))
    assert done == [1, 2]


def test_it_is_waited_for_at_the_end_which_tells_what_went_wrong() -> None:
    background, done = Background("the work"), list[int]()
    background.begin(lambda: done.append(1))
    background.close()
    assert done == [1]
    background = Background("the work")
    background.begin(full)
    with pytest.raises(RunError, match="no space"):
        background.close()
    background.close()


def test_without_another_thread_it_is_done_in_this_one() -> None:
    """An interpreter that ends begins no more of them."""
    background, threads = Background("the work"), list[int]()
    background.close()
    background.begin(lambda: threads.append(get_ident()))
    assert threads == [get_ident()]
