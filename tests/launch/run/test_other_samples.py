"""launch.results: runs of one choice of data whose files were written anew between them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pytest
from launching import SMALL, simulated
from showing import Showing

KEPT = {
    key: value for key, value in SMALL.items() if key not in ("data", "name", "clients", "cohort", "lanes", "rounds")
}


def write(file: Path, shift: int) -> None:
    """An .npz of two classes whose pixels are other ones for each shift."""
    x = (np.arange(40 * 16).reshape(40, 4, 4) * 7 + shift).astype(np.uint8)
    y = np.arange(40) % 2
    np.savez(file, x_train=x, y_train=y, x_test=x[:10], y_test=y[:10])


def trained(seed: int, lr: float, *, clients: int = 3, more: Mapping[str, object] = MappingProxyType({})) -> Path:
    own: dict[str, object] = {
        "data": "mine.npz",
        "seed": seed,
        "lr": lr,
        "clients": clients,
        "rounds": 1,
        "figures": False,
    }
    settings = {**KEPT, **own, **more}
    return simulated({**settings, "name": f"{lr}-{clients}-seed{seed}"}, Path("runs"))


def told(out: str) -> list[str]:
    return [line for line in out.splitlines() if "samples of the same data" in line]


def test_samples_that_differ_and_nothing_that_they_depend_on_are_told(show: Showing) -> None:
    write(Path("mine.npz"), 0)
    trained(0, 0.1)
    trained(0, 0.2)
    assert told(show("runs")[1]) == []
    write(Path("mine.npz"), 1)
    trained(0, 0.3, clients=4)
    assert told(show("runs")[1]) == []
    trained(1, 0.2)
    what = "made with different samples of the same data: "
    assert told(show("runs")[1]) == [f"{what}2 runs (0.1-3-seed0 and others); 1 run (0.2-3-seed1)"]


@pytest.mark.parametrize(("order", "apart"), [("random", False), ("data", True)])
def test_classes_that_are_numbered_by_the_seed_make_other_samples_of_it(show: Showing, order: str, apart: bool) -> None:
    for seed, shift in ((0, 0), (1, 1), (2, 1)):
        write(Path("mine.npz"), shift)
        trained(seed, 0.1, more={"stream": "ClassGroups", "stream.size": 1, "stream.tasks": 2, "stream.order": order})
    assert bool(told(show("runs")[1])) == apart


def test_runs_that_cannot_tell_have_the_samples_of_all_others(show: Showing) -> None:
    write(Path("mine.npz"), 0)
    old = trained(0, 0.1) / "summary.json"
    old.write_text(
        json.dumps({key: value for key, value in json.loads(old.read_text()).items() if key != "data_sha256"})
    )
    write(Path("mine.npz"), 1)
    trained(0, 0.2)
    assert told(show("runs")[1]) == []


def test_test_sets_that_the_seed_draws_are_other_samples_of_it(show: Showing) -> None:
    write(Path("mine.npz"), 0)
    for seed in (0, 1):
        trained(seed, 0.1, more={"data.merge": True, "local_test": 0.3, "partition": "IID"})
    assert told(show("runs")[1]) == []
