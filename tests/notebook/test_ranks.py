"""Scripts that call simulate() on two ranks."""

from __future__ import annotations

from pathlib import Path

import pytest
from launching import launched

SCRIPT = """
import os, sys
import numpy as np
import fl_ddp

rank, what = int(os.environ["RANK"]), sys.argv[1]
random = np.random.default_rng(rank if what == "arrays" else 0)
x = random.normal(size=(60, 5)).astype(np.float32)
y = (x[:, 0] > 0).astype(np.int64)
seen = []
callbacks = [lambda record: seen.append(record.round) or record.round == 2] if rank == 0 else []
class Unreadable(list):
    def __iter__(self):
        raise OSError("cannot be read")

ills = {"option": {"lrr": 1}, "error": {"client_lr": Unreadable()}, "device": {"device": "cuda"}}
wrong = {"device": "cpu"} | (ills.get(what, {}) if rank == 1 else {})
try:
    done = fl_ddp.simulate(data=(x, y, x, y), callbacks=callbacks, clients=4, partition="IID", rounds=4, compile=False,
                           name="run", out="runs", **wrong)
except (fl_ddp.errors.ConfigError, fl_ddp.errors.ElsewhereError, OSError) as error:
    print(rank, error)
else:
    print(rank, seen, done.get("rounds"), len(done.history))
"""


def outcome(what: str, folder: Path) -> str:
    """What two ranks print."""
    script = folder / "script.py"
    script.write_text(SCRIPT)
    with launched([str(script), what], 2, folder, {"CUDA_VISIBLE_DEVICES": ""}) as launch:
        ended = launch.ended()
    assert ended.code == 0, ended.err[-3000:]
    return ended.out


@pytest.mark.slow
def test_arrays_must_be_the_same_on_all_ranks(tmp_path: Path) -> None:
    told = (
        "data, partition, model and the like: are not the same on all ranks; accepted: draws with the same seed on each"
    )
    assert told in outcome("arrays", tmp_path)
    assert not (tmp_path / "runs" / "run").exists()


@pytest.mark.slow
def test_a_wrong_option_on_one_rank_ends_the_call_on_all(tmp_path: Path) -> None:
    told = outcome("option", tmp_path)
    assert "lrr: unknown option" in told and "rank 1" in told
    assert not (tmp_path / "runs" / "run").exists()


@pytest.mark.slow
def test_any_error_of_one_rank_ends_the_call_on_all(tmp_path: Path) -> None:
    told = outcome("error", tmp_path)
    assert "1 cannot be read" in told and "0 rank 1" in told


@pytest.mark.slow
def test_a_device_that_one_rank_lacks_ends_the_call_on_all(tmp_path: Path) -> None:
    told = outcome("device", tmp_path)
    assert "1 --device: " in told and "0 rank 1" in told


@pytest.mark.slow
def test_callbacks_of_the_first_rank_end_the_run_on_all(tmp_path: Path) -> None:
    told = outcome("callbacks", tmp_path)
    assert "0 [1, 2] 2 2" in told and "1 [] None 0" in told
