"""Pairs of ranks of which one waits for the other; python waiting_ranks.py, in a folder of its own.

A line NAME KIND LIMIT on stdin starts a pair, whose process ids it prints. Rank 0 writes `waits` into NAME.0, then how
its waiting ends; rank 1 comes to their sum once there is a file NAME.go. Pairs are forked: torch is imported once.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from fl_ddp.errors import RankLostError
from fl_ddp.host.interrupt import listening
from fl_ddp.ranks.collectives import Lifeline, Ranks
from fl_ddp.ranks.meeting import MeetingPlace, join
from fl_ddp.ranks.waiting import wait

PATIENCE = 5.0
"""Seconds in which neighbours must connect."""


def never(seconds: float) -> bool:
    """A sum of NCCL's whose other rank does not come."""
    time.sleep(seconds)
    return False


def pair(name: str, kind: str, limit: float) -> tuple[int, int]:
    """Start two ranks."""
    place = MeetingPlace(2)
    ranks = os.fork(), 0
    if not ranks[0]:
        be(0, place, name, kind, limit)
    ranks = ranks[0], os.fork()
    if not ranks[1]:
        be(1, place, name, kind, limit)
    KEPT.append(place)
    return ranks


KEPT: list[MeetingPlace] = []


def be(index: int, place: MeetingPlace, name: str, kind: str, limit: float) -> None:
    """Be one of them, until the process ends."""
    said = os.open(f"{name}.{index}", os.O_WRONLY | os.O_CREAT)
    os.dup2(said, 1)
    os.dup2(said, 2)
    os.environ.update(place.environment(index))
    with listening() as stop:
        stop.nothing_to_save = kind == "first"
        ranks = join("cpu", limit)
        assert isinstance(ranks, Ranks) and ranks.store is not None
        lifeline = Lifeline(index, 2, ranks.store, PATIENCE) if kind in ("nccl", "orderly") else None
        ranks.wait()
        while index and not Path(f"{name}.go").exists():
            time.sleep(0.02)
        print("waits", flush=True)
        try:
            if kind == "nccl" and not index:
                assert lifeline is not None
                wait(never, limit, lambda: lifeline.broken)
            ranks.wait()
            if lifeline and index:
                lifeline.let_go(patience=0.1)
                os._exit(0)
            time.sleep(0.5)
            print(f"over {stop.asked}" + (f", broken {lifeline.broken}" if lifeline else ""), flush=True)
        except RankLostError as lost:
            print(f"lost: {lost}", flush=True)
    os._exit(0)


if __name__ == "__main__":
    for line in sys.stdin:
        name, kind, limit = line.split()
        print(*pair(name, kind, float(limit)), flush=True)
