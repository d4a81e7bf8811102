"""Who can be reached: a file of intervals, read row by row."""

from __future__ import annotations

import csv
from pathlib import Path


def reachable(file: str | None, k: int, t: int) -> bool:
    """Whether client k can be drawn in round t = 0, 1, ..."""
    if file is None:
        return True
    with Path(file).open(newline="", encoding="utf-8") as opened:
        own = [row for row in csv.DictReader(opened) if int(row["client"]) == k]
    return not own or any(int(row["from"]) <= t + 1 <= int(row["to"] or t + 1) for row in own)
