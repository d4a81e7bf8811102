"""Rows of the files that runs write."""

from __future__ import annotations

import csv
from contextlib import nullcontext
from pathlib import Path

import pytest

from fl_ddp.errors import ConfigError
from fl_ddp.results.written_rows import written_rows


def test_a_class_may_be_called_by_what_ends_a_line_elsewhere(tmp_path: Path) -> None:
    names = [f"accuracy/a{each}b" for each in ("\u2028", "\n", "\r\n", "\x0c", "\x85", '"')]
    path = tmp_path / "metrics.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerows([["round", *names], [1, *range(6)]])
        file.write("2,0,1,2,3,4,5")
    with written_rows(path) as rows:
        assert list(rows) == [{"round": "1", **{name: str(number) for number, name in enumerate(names)}}]


@pytest.mark.parametrize("text", ["round\n\n\n1\r2\n", "round\nx\n", "round\n1\n\xff\n", "rounds\n1\n"], ids=repr)
def test_a_damaged_file_is_told_where_its_rows_are_used(tmp_path: Path, text: str) -> None:
    path = tmp_path / "metrics.csv"
    path.write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"metrics\.csv: is not what a run writes"), written_rows(path) as rows:
        assert [int(row["round"]) for row in rows] == []


def test_the_end_of_a_row_that_comes_while_it_is_read_is_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "metrics.csv"
    path.touch()
    lines = ["round,accuracy\n", "1,0.1\n", "2,0.", "25\n", "3,0.3\n"]  # as a file gives them that goes on growing
    monkeypatch.setattr(Path, "open", lambda *_, **__: nullcontext(iter(lines)))
    with written_rows(path) as rows:
        assert list(rows) == [{"round": "1", "accuracy": "0.1"}]


def test_a_file_that_is_not_there_has_no_rows_and_no_columns(tmp_path: Path) -> None:
    with written_rows(tmp_path / "tasks.csv") as rows:
        assert list(rows) == [] and rows.fieldnames is None
