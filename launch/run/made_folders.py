"""Folders that are made for something that may yet be refused."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fl_ddp.host.atomic_file import writing


@contextmanager
def made_folders(places: Iterable[Path]) -> Iterator[None]:
    """Make folders for a block; if it raises, those that are empty go again, but none that was there before.

    Args:
        places: the folders; what is missing above them is made, too.

    Raises:
        RunError: one cannot be made.
    """
    wanted = list(places)
    new = {each for place in wanted for each in (place, *place.parents) if not each.exists()}
    try:
        for place in wanted:
            with writing(place):
                place.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for each in sorted(new, key=lambda path: len(path.parts), reverse=True):
            with suppress(OSError):
                each.rmdir()
        raise
