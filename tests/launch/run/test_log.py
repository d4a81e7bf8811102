"""What launchers take from a run's log."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.run.log import heading, last_words, reported_error, words_of_job

BEFORE = f"{heading('7')}attempt 0, 1 rank(s) on n1\nfl_ddp: error: of an earlier job\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "run.log"
    file.write_text(BEFORE)
    return file


def test_words_of_an_earlier_job_are_not_those_of_one_that_never_wrote(log: Path) -> None:
    assert words_of_job("7", [log]) == "of an earlier job"
    assert words_of_job("8", [log]) is None


def test_a_traceback_of_a_process_that_could_say_nothing_else_is_why_it_failed(log: Path) -> None:
    with log.open("a") as file:
        file.write(f"{heading('8')}attempt 0\nTraceback (most recent call last):\n  in x\nImportError: no torch\n\n")
    assert words_of_job("8", [log]) == "ImportError: no torch"


def test_a_rank_that_leaves_the_word_to_another_has_none(log: Path) -> None:
    with log.open("a") as file:
        file.write(f"{heading('8')}attempt 0\nround 1/3\n")
    assert words_of_job("8", [log]) is None


def test_last_words_are_of_the_last_command_alone(log: Path) -> None:
    size = log.stat().st_size
    assert last_words(log, size) == "it printed nothing"
    with log.open("a") as file:
        file.write("Segmentation fault\n")
    assert last_words(log, size) == "Segmentation fault"
    assert last_words(log, 0) == "of an earlier job"


def test_an_error_counts_until_a_later_job_is_submitted(log: Path) -> None:
    assert reported_error(log) == "of an earlier job"
    with log.open("a") as file:
        file.write("fl_ddp: submitted as job 8\n")
    assert reported_error(log) is None
    assert reported_error(log.with_name("none.log")) is None
