"""Files that several processes want and one makes."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from launching import PATIENCE

from fl_ddp.datasets.array_cache import cached
from fl_ddp.datasets.dataset import Arrays
from fl_ddp.datasets.mnist import MNIST
from fl_ddp.host import atomic_file
from fl_ddp.host.atomic_file import by_one_process
from fl_ddp.notebook.given_file import GivenFile, keep

PIXELS = np.zeros((2, 1, 3, 3), np.uint8)
ARRAYS = Arrays(PIXELS, np.arange(2), PIXELS, np.arange(2), ("ant", "bee"))


Wanted = tuple[Path, Path, Callable[[], object]]
"""A lock, what is made under it, and what wants that."""


def kept_images(folder: Path) -> Wanted:
    path = folder / "fl_ddp" / "datasets" / "pets.npz"
    return path.with_suffix(".lock"), path, lambda: cached("pets", lambda: ARRAYS)


def download(folder: Path) -> Wanted:
    source = MNIST(root=str(folder), download=True)
    return source.folder / ".download.lock", source.folder, source.require_files


def given(folder: Path) -> Wanted:
    path = folder / "a.npz"
    return path.with_suffix(".lock"), path, lambda: keep(GivenFile.of(b"", ".npz"), path)


@pytest.mark.parametrize("wanted", [kept_images, download, given])
def test_who_waits_for_another_process_says_for_what_and_whose(
    wanted: Callable[[Path], Wanted],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(atomic_file, "PATIENCE", 0.1)
    lock, what, want = wanted(tmp_path)
    lock.parent.mkdir(parents=True, exist_ok=True)
    told, end = "", time.monotonic() + PATIENCE
    with ThreadPoolExecutor(1) as pool:
        with by_one_process(lock, what):
            waiting = pool.submit(want)
            while not (told := told + capsys.readouterr().err):
                assert time.monotonic() < end
                time.sleep(0.02)
            for name in MNIST().files:
                (lock.parent / name).touch()  # as the other has fetched them
            assert not waiting.done()
        waiting.result(20)
    whose = f"host {socket.gethostname()}, process {os.getpid()}"
    assert told + capsys.readouterr().err == f"fl_ddp: waits for {what}, which another process is making ({whose})\n"


def test_who_need_not_wait_says_nothing_and_one_rank_speaks_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(atomic_file, "PATIENCE", 0.1)
    keep(GivenFile.of(b"", ".npz"), tmp_path / "a.npz")
    monkeypatch.setenv("RANK", "1")
    with ThreadPoolExecutor(1) as pool:
        with by_one_process(tmp_path / "a.lock", tmp_path / "a.npz"):
            waiting = pool.submit(keep, GivenFile.of(b"", ".npz"), tmp_path / "a.npz")
            with pytest.raises(TimeoutError):
                waiting.result(0.4)
        waiting.result(20)
    assert capsys.readouterr().err == ""
