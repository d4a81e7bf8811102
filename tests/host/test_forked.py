"""A process that was forked from one that had made a run, where torch would wait for ever."""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from launching import SMALL, numbers

import fl_ddp
from fl_ddp.errors import ConfigError


def made(folder: str, seed: int) -> str:
    """A run; the folder where it lies."""
    return str(fl_ddp.simulate({**SMALL, "rounds": 1, "seed": seed, "out": folder, "name": f"{seed}"})["folder"])


@pytest.mark.slow
def test_a_run_in_a_forked_process_is_refused_and_one_in_a_new_process_is_not(tmp_path: Path) -> None:
    first = made(str(tmp_path), 0)
    with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
        refused = pool.submit(made, str(tmp_path), 1)
        with pytest.raises(ConfigError, match=r"^this process: was forked from one that had made a run, and lacks"):
            refused.result(60)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        again = pool.submit(made, str(tmp_path / "spawned"), 0).result(120)
    assert numbers(Path(again)) == numbers(Path(first))
    assert not (tmp_path / "1").exists()
