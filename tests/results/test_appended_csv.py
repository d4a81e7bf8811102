"""A CSV file that grows with a run."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

from fl_ddp.results.appended_csv import AppendedCsv


def test_rows_of_a_long_run_are_read_one_after_the_other(tmp_path: Path) -> None:
    """As dictionaries all at once they take 20 times as much, with which no long run could go on."""
    path, columns, number = tmp_path / "some.csv", ("round", "client"), 50_000
    file, none = AppendedCsv.opened(path, columns, None)
    file.append({"round": i, "client": i % 7} for i in range(number))
    file.close()
    assert not list(none)
    tracemalloc.start()
    again, rows = AppendedCsv.opened(path, columns, file.state())
    assert sum(int(row["round"]) for row in rows) == number * (number - 1) // 2
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    again.close()
    assert most < 12 * path.stat().st_size
