"""Which clients take part in which tasks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fl_ddp.engine.seeds import generator
from fl_ddp.errors import ConfigError
from fl_ddp.streams.static import Static
from fl_ddp.tasks.enrolment import Enrolment, enrolment


def matrix(
    how: str, clients: int = 4, tasks: int = 4, seed: int = 0, join: float = 0.5, leave: float = 0.2
) -> Enrolment:
    return enrolment(Static(tasks=tasks, enrolment=how, join=join, leave=leave), clients, generator(seed))


@pytest.mark.parametrize(
    ("how", "rows"),
    [
        ("all", ["1111", "1111", "1111", "1111"]),
        ("decreasing", ["1111", "1110", "1100", "1000"]),
        ("increasing", ["1111", "0111", "0011", "0001"]),
        ("scattered", ["1000", "0100", "0010", "0001"]),
    ],
)
def test_the_papers_scenarios(how: str, rows: list[str]) -> None:
    assert ["".join(map(str, row)) for row in matrix(how).astype(int).tolist()] == rows


def test_clients_are_parted_evenly_among_tasks() -> None:
    assert matrix("scattered", clients=8).sum(0).tolist() == [2, 2, 2, 2]
    assert matrix("increasing", clients=6, tasks=3).sum(0).tolist() == [2, 4, 6]
    assert matrix("decreasing", clients=6, tasks=3).sum(0).tolist() == [6, 4, 2]


@given(st.integers(0, 2**31), st.integers(1, 30), st.integers(1, 9))
def test_random_enrolment_is_a_function_of_its_seed_and_begins_with_somebody(
    seed: int, clients: int, tasks: int
) -> None:
    drawn = matrix("random", clients, tasks, seed)
    assert drawn.shape == (clients, tasks) and drawn[:, 0].any()
    assert np.array_equal(drawn, matrix("random", clients, tasks, seed))


def test_clients_join_and_leave_as_often_as_is_said() -> None:
    drawn = matrix("random", 400, 50, join=0.3, leave=0.1)
    before, after = drawn[:, :-1], drawn[:, 1:]
    assert (~after)[before].mean() == pytest.approx(0.1, abs=0.01)
    assert after[~before].mean() == pytest.approx(0.3, abs=0.02)
    assert drawn[:, 0].mean() == pytest.approx(0.3, abs=0.07)
    assert not np.array_equal(drawn, matrix("random", 400, 50, seed=1, join=0.3, leave=0.1))


def test_nobody_moves_where_nobody_may() -> None:
    drawn = matrix("random", 50, 6, join=0.5, leave=0)
    assert (np.diff(drawn.astype(int)) >= 0).all()
    drawn = matrix("random", 50, 6, join=0, leave=0)
    assert drawn.sum(0).tolist() == [1] * 6


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "who.csv"
    file.write_text("1,0, 1\n0,1,0\n\n")
    assert matrix(str(file), 2, 3).tolist() == [[True, False, True], [False, True, False]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,0\n1,1,0\n", "row 1, '1,0', is none of 3 tasks; accepted: entries 0 or 1, a column a task"),
        ("1,0,2\n1,1,0\n", "row 1, '1,0,2', is none of 3 tasks"),
        ("1,0,1\n", "has 1 rows, and there are 2 clients; accepted: a row a client"),
        (None, "cannot be read ([Errno 2] No such file"),
    ],
)
def test_broken_files(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "who.csv"
    if content is not None:
        file.write_text(content)
    with pytest.raises(ConfigError) as refused:
        matrix(str(file), 2, 3)
    assert str(refused.value).startswith(f"--stream.enrolment: {file}") and message in str(refused.value)


def test_words_that_are_none() -> None:
    with pytest.raises(ConfigError, match=r"^--stream.enrolment: some is impossible; accepted: all, decreasing, "):
        matrix("some")
