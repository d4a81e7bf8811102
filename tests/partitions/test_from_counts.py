"""A table of counts is followed to the sample, and a wrong one refused with its line."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from fl_ddp.engine.seeds import generator
from fl_ddp.errors import ConfigError
from fl_ddp.partitions.from_counts import FromCounts
from fl_ddp.protocol import Indices

LABELS = np.tile([0, 1, 1, 2], 5)
TABLE = "client,0,1,2\n0,2,0,5\n1,1,7,0\n"
PUBLISHED = Path(__file__).parents[2] / "configs" / "fedka" / "cifar10_alpha0.1.csv"


def divided(folder: Path, table: str, clients: int = 2, seed: int = 0) -> list[Indices]:
    file = folder / "counts.csv"
    file.write_text(table)
    return FromCounts(path=str(file)).split(LABELS, clients, generator(seed))


def test_clients_get_as_many_of_each_class_as_the_table_says(tmp_path: Path) -> None:
    parts = divided(tmp_path, TABLE)
    assert [np.bincount(LABELS[part], minlength=3).tolist() for part in parts] == [[2, 0, 5], [1, 7, 0]]
    together = np.concatenate(parts)
    assert len(np.unique(together)) == len(together) == 15
    assert all((np.diff(part) > 0).all() for part in parts)
    other = divided(tmp_path, TABLE, seed=1)
    assert any(not np.array_equal(a, b) for a, b in zip(parts, other, strict=True)), "which ones is drawn"
    assert all(np.array_equal(a, b) for a, b in zip(parts, divided(tmp_path, TABLE), strict=True))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE + "2,1,0,0\n", "divides among 3 clients, --clients is 2"),
        ("client,0,1,2\n0,2,0,5\n1,4,7,0\n", "gives out 6 samples of class 0, of which there are 5"),
        ("client,0,1\n0,2,0\n1,1,7\n", "has columns for 2 classes, the data have 3"),
        ("client,0,1,2\n0,2,0,5\n1,1,7\n", "row 2 is '1,1,7'; accepted: 1 and 3 counts"),
        ("client,0,1,2\n0,2,0,5\n2,1,7,0\n", "row 2 is '2,1,7,0'; accepted: 1 and 3 counts"),
        (
            "client,0,1,2\n0,2,-1,5\n1,1,7,0\n",
            "client 0 has '-1' samples of a class; accepted: whole numbers from 0 up",
        ),
        ("client,0,1,2\n0,2,.5,5\n1,1,7,0\n", "client 0 has '.5' samples of a class"),
        ("0,2,0,5\n1,1,7,0\n", "begins with '0,2,0,5'; accepted: a CSV file with a row for each client"),
        ("", "is empty; accepted: a CSV file"),
    ],
)
def test_a_wrong_table_is_refused(tmp_path: Path, table: str, message: str) -> None:
    with pytest.raises(ConfigError, match=rf"^{re.escape(str(tmp_path / 'counts.csv'))}: {re.escape(message)}"):
        divided(tmp_path, table)


def test_a_file_that_is_not_there_or_not_named() -> None:
    with pytest.raises(ConfigError, match=r"^nowhere\.csv: cannot be read as a table \(.*No such file"):
        FromCounts(path="nowhere.csv").split(LABELS, 2, generator(0))
    with pytest.raises(ConfigError, match=r"^--partition.path: no file is named; accepted: a CSV file"):
        FromCounts().split(LABELS, 2, generator(0))


def test_the_published_counts_are_those_that_the_paper_s_text_tells_of() -> None:
    """All 60,000 images of CIFAR-10; client 3's dominant classes are 2 and 8; numbers of all three kinds at 5 %."""
    labels = np.repeat(np.arange(10), 6000)
    parts = FromCounts(path=str(PUBLISHED)).split(labels, 10, generator(0))
    counts = np.array([np.bincount(labels[part], minlength=10) for part in parts])
    assert counts.sum() == 60_000
    shares = counts / counts.sum(1, keepdims=True)
    assert np.flatnonzero(shares[3] >= 0.05).tolist() == [2, 8]
    kinds = [((s >= 0.05).sum(), ((s > 0) & (s < 0.05)).sum(), (s == 0).sum()) for s in shares]
    assert [tuple(int(n) for n in kind) for kind in kinds] == [
        (2, 4, 4), (3, 2, 5), (2, 2, 6), (2, 3, 5), (3, 3, 4), (1, 1, 8), (3, 4, 3), (1, 4, 5), (3, 6, 1), (2, 2, 6),
    ]  # fmt: skip
