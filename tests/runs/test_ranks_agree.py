"""Ranks whose server states drift apart end the run instead of its numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from launching import SMALL, checkpoints, failed, launched, simulated

DRIFTS = """
import os
from dataclasses import dataclass

from fl_ddp.api import FedAvg


@dataclass(frozen=True)
class Drifts(FedAvg):
    \"\"\"Does something of its own on rank 1 in the round of its index, and fails there in another.\"\"\"

    at: int = 1
    fails: int = 9

    def server_update(self, server, total, info):
        if info.index == self.fails and os.environ.get("RANK") == "1":
            raise ValueError("of a state that nobody else has")
        after = super().server_update(server, total, info)
        if info.index == self.at and os.environ.get("RANK") == "1":
            after["theta"][3] += 1e-6
        return after
"""


@pytest.mark.slow
@pytest.mark.parametrize(("at", "every", "fails"), [(1, 1, 9), (2, 1, 9), (0, 3, 9), (0, 3, 1)])
def test_a_drift_of_one_coordinate_is_told_with_round_and_method_and_not_saved(
    tmp_path: Path, at: int, every: int, fails: int
) -> None:
    """A checkpoint finds it, or the next round's sum, whatever else goes wrong in it."""
    file = tmp_path / f"drifts_{at}_{every}_{fails}.py"
    file.write_text(DRIFTS)
    settings = {**SMALL, "method": f"{file}:Drifts", "method.at": at, "checkpoint_every": every, "rounds": 3}
    ended = failed({**settings, "method.fails": fails, "out": tmp_path}, 2, tmp_path)
    assert len(ended.ours) == 1
    assert ended.ours[0].startswith(
        f"fl_ddp: error: round {at + 1}: the ranks' server states differ after server_update of Drifts; "
    )
    assert checkpoints(tmp_path / "run") == [f"round_{done:06d}" for done in range(every, at + 1, every)]
    simulated({**settings, "name": "alone"}, tmp_path)


UNLIKE = """
import os
from dataclasses import dataclass, replace

import numpy as np

from fl_ddp.api import Permuted
from fl_ddp.datasets.digits import Digits
from fl_ddp.partitions.iid import IID

OWN = int(os.environ.get("RANK", "0"))


@dataclass(frozen=True)
class Data(Digits):
    \"\"\"Has other pixels on rank 1.\"\"\"

    def read(self):
        arrays = super().read()
        return replace(arrays, x_train=arrays.x_train + np.uint8(OWN))


@dataclass(frozen=True)
class Elsewhere(Digits):
    \"\"\"Is read in another folder on rank 1, where other files are.\"\"\"

    def read(self):
        if OWN:
            os.chdir("other")
        return super().read()


@dataclass(frozen=True, kw_only=True)
class Division(IID):
    \"\"\"Deals otherwise on rank 1.\"\"\"

    def divide(self, labels, num_clients, rng):
        return super().divide(labels, num_clients, np.random.default_rng(OWN))


@dataclass(frozen=True, kw_only=True)
class Tasks(Permuted):
    \"\"\"Has other labels on rank 1.\"\"\"

    def labels(self, task, y, num_classes):
        return (y + OWN) % num_classes
"""


@pytest.mark.parametrize(
    ("option", "name", "words"),
    [
        pytest.param("data", "Data", "--data: gives other samples", marks=pytest.mark.slow),
        ("partition", "Division", "--partition or --stream: deals the samples out otherwise"),
        pytest.param(
            "stream", "Tasks", "--partition or --stream: deals the samples out otherwise", marks=pytest.mark.slow
        ),
    ],
)
def test_samples_that_differ_between_ranks_are_refused(tmp_path: Path, option: str, name: str, words: str) -> None:
    file = tmp_path / "unlike.py"
    file.write_text(UNLIKE)
    ended = failed({**SMALL, option: f"{file}:{name}", "out": tmp_path}, 2, tmp_path)
    assert ended.ours == [
        f"fl_ddp: error: {words} on another rank; accepted: the same on each, by generators with seeds"
    ]
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "here", "there", "words"),
    [
        (
            "availability", "client,from,to\n0,2,3\n", "client,from,to\n0,2,2\n",
            "--availability: has other intervals on another rank; accepted: the same on each",
        ),
        (
            "client_lr", "client,factor\n0,0.5\n", "client,factor\n0,0.1\n",
            "--client_lr: gives other factors on another rank; accepted: the same on each",
        ),
        (
            "class_reduction", "client,class,round,count\n0,1,2,1\n", "client,class,round,count\n0,1,2,2\n",
            "--partition, --stream or --class_reduction: deals the samples out otherwise on another rank; accepted: "
            "the same on each, by generators with seeds",
        ),
    ],
)  # fmt: skip
def test_files_that_differ_between_ranks_are_named(
    tmp_path: Path, option: str, here: str, there: str, words: str
) -> None:
    unlike, other = tmp_path / "unlike.py", tmp_path / "other"
    other.mkdir()
    unlike.write_text(UNLIKE)
    (tmp_path / "file.csv").write_text(here)
    (other / "file.csv").write_text(there)
    # by its link to the folder that a process is in, a path is another one on each rank
    settings = {
        **SMALL,
        "partition": "IID",
        "data": f"{unlike}:Elsewhere",
        option: "/proc/self/cwd/file.csv",
        "out": tmp_path,
    }
    assert failed(settings, 2, tmp_path).ours == [f"fl_ddp: error: {words}"]


OWN = """
from fl_ddp.api import FedAvg


class Mine(FedAvg):
    def correct(self, g, *given):
        return {sign}g
"""
OTHER = """
import json, os, sys
from fl_ddp.main import command

options = json.loads(sys.argv[1])
sys.argv[1:] = [f"--{key}={values[int(os.environ['RANK'])]}" for key, values in options.items()]
command()
"""


def with_options(given: dict[str, tuple[object, object]], folder: Path) -> tuple[list[str], Path]:
    """A program of two ranks whose options are of a value each."""
    script = folder / "script.py"
    script.write_text(OTHER)
    same = {**SMALL, "compile": "false", "rounds": 2, "out": folder}
    options = {**{key: (str(value), str(value)) for key, value in same.items()}, **given}
    return [str(script), json.dumps(options, default=str)], folder / "run"


@pytest.mark.parametrize(
    ("key", "values", "words"),
    [
        ("lr", (0.5, 0.1), "--lr: 0.1 on rank 1, 0.5 on rank 0"),
        pytest.param("rounds", (2, 3), "--rounds: 3 on rank 1, 2 on rank 0", marks=pytest.mark.slow),
        pytest.param(
            "method.weights", ("data", "uniform"), "--method.weights: uniform on rank 1, data on rank 0",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            "method", ("FedAvg", "Ditto"),
            "--method: fl_ddp.methods.ditto.Ditto on rank 1, fl_ddp.methods.fedavg.FedAvg on rank 0",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_options_that_differ_between_ranks_are_named(
    tmp_path: Path, key: str, values: tuple[object, object], words: str
) -> None:
    """As those of two machines, of which each is given a command line of its own."""
    program, run = with_options({key: values}, tmp_path)
    with launched(program, 2, tmp_path) as launch:
        ended = launch.ended()
    assert ended.ours == [f"fl_ddp: error: {words}; accepted: the same on all ranks"]
    assert not run.exists()


@pytest.mark.slow
def test_ranks_may_have_their_files_in_folders_of_their_own(tmp_path: Path) -> None:
    files = []
    for rank in range(2):
        files.append(tmp_path / str(rank) / "there.csv")
        files[-1].parent.mkdir()
        files[-1].write_text("client,from,to\n0,2,3\n")
    own = {"availability": (files[0], files[1]), "out": (tmp_path, "nowhere"), "name": ("run", "other")}
    program, run = with_options(own, tmp_path)
    with launched(program, 2, tmp_path) as launch:
        ended = launch.ended()
    assert ended.code == 0 and (run / "summary.json").exists(), ended.err[-3000:]


@pytest.mark.slow
def test_own_code_that_differs_between_ranks_is_named(tmp_path: Path) -> None:
    places = []
    for rank, sign in enumerate("+-"):
        file = tmp_path / str(rank) / "mine.py"
        file.parent.mkdir()
        file.write_text(OWN.format(sign=sign))
        places.append(f"{file}:Mine")
    program, run = with_options({"method": (places[0], places[1])}, tmp_path)
    with launched(program, 2, tmp_path) as launch:
        ended = launch.ended()
    assert ended.ours == [
        "fl_ddp: error: mine.py: is not on rank 1 what it is on rank 0; accepted: the same on all ranks"
    ]
    assert not run.exists()


@pytest.mark.slow
def test_long_values_that_differ_are_told_by_their_beginning(tmp_path: Path) -> None:
    rows = ";".join(f"{i % 12},{i % 10},{i // 120 + 1},0" for i in range(600))
    program, _ = with_options({"class_reduction": (rows, "0,1,2,1")}, tmp_path)
    with launched(program, 2, tmp_path) as launch:
        ended = launch.ended()
    (line,) = ended.ours
    assert line.startswith("fl_ddp: error: --class_reduction: 0,1,2,1 on rank 1, 0,0,1,0;") and len(line) < 300


LATE = """
import os
from dataclasses import dataclass

from fl_ddp.streams.permuted import Permuted


@dataclass(frozen=True, kw_only=True)
class Late(Permuted):
    \"\"\"Cannot make so many inputs of its second task on one rank.\"\"\"

    fails: int = 1
    samples: int = 0

    def inputs(self, task, x, rng):
        if task == 1 and len(x) == self.samples and os.environ.get("RANK") == str(self.fails):
            raise OSError("no such file on this node")
        return super().inputs(task, x, rng)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fails", "samples", "kept"), [(1, 1437, ["round_000002"]), (0, 1437, ["round_000002"]), (1, 360, [])]
)
def test_a_task_that_one_rank_cannot_make_is_told_and_nothing_is_lost(
    tmp_path: Path, fails: int, samples: int, kept: list[str]
) -> None:
    """Its training samples when it begins, its test samples before the first round."""
    file = tmp_path / "late.py"
    file.write_text(LATE)
    stream = {"stream": f"{file}:Late", "stream.tasks": 2, "stream.task_rounds": 2}
    settings = {**SMALL, **stream, "stream.fails": fails, "stream.samples": samples, "rounds": 4}
    ended = failed({**settings, "checkpoint_every": 9, "out": tmp_path}, 2, tmp_path)
    assert len(ended.ours) == 1 and "OSError: no such file on this node" in ended.ours[0]
    assert (tmp_path / "run" / "failure.txt").is_file()
    assert checkpoints(tmp_path / "run") == kept
