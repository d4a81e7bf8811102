"""What a run asks of Slurm."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pytest
from launching import SMALL, options

from fl_ddp.errors import ConfigError
from launch.input.declared import Name
from launch.input.words import split
from launch.run.trial import Trial
from launch.slurm.jobs import sbatch_file
from launch.slurm.options import Sbatch, SlurmOptions, read_minutes


def read(*line: str) -> SlurmOptions:
    return split(line, SlurmOptions).read(SlurmOptions)


@pytest.mark.parametrize(
    ("text", "minutes"),
    [
        ("30", 30), ("30:00", 30), ("0:30", 1), ("90:01", 91), ("4:00:00", 240), ("0:00:01", 1),
        ("1-0", 1440), ("1-00:30", 1470), ("1-12:00:00", 2160),
    ],
)  # fmt: skip
def test_times_are_read_as_slurm_reads_them(text: str, minutes: int) -> None:
    assert read_minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "0", "-5", "4h", "1:2:3", "4:00:00:00", "1-", "1.5", "400-0"])
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="accepted: minutes"):
        read_minutes(text)


def test_a_rank_for_each_gpu() -> None:
    assert read() == SlurmOptions()
    assert read("--nodes=2", "--gpus_per_node=8").ranks_of_node == 8
    assert read("--nodes=2", "--gpus_per_node=8", "--ranks_per_node=2").ranks_of_node == 2
    assert read("--nodes=3", "--ranks_per_node=4").ranks_of_node == 4


def test_all_options_reach_slurm() -> None:
    values = {"cpus_per_task": "3", "mem": "4G", "time": "10", "grace": "20", "requeues": "0", "slurm_partition": "p"}
    values |= {"account": "a", "qos": "q", "constraint": "c"}
    found = read(*[f"--{key}={value}" for key, value in values.items()], "--sbatch=exclusive", "--sbatch=nodelist=n1")
    assert {key: str(getattr(found, key)) for key in values} == values and found.minutes == 10
    assert found.further == {"exclusive": "", "nodelist": "n1"}


def flags(asked: SlurmOptions, number: int, parallel: int | None, folder: Path) -> set[str]:
    """What sbatch is given for so many runs."""
    trials = [Trial(f"{i}", folder / f"{i}", tuple(options(SMALL))) for i in range(number)]
    return set(re.findall("^#SBATCH (.*)$", sbatch_file(trials, asked, folder / "files", parallel), re.MULTILINE))


def test_all_runs_of_an_array_are_made_at_once_unless_it_is_said(tmp_path: Path) -> None:
    assert "--array=0-299%300" in flags(read(), 300, None, tmp_path)
    assert "--array=0-299%7" in flags(read(), 300, 7, tmp_path)


@dataclass(frozen=True)
class OneMore(SlurmOptions):
    """As a new flag of Slurm is added.

    Attributes:
        reservation: nodes that are kept.
        overcommit: share cores.
    """

    reservation: Annotated[Name, Sbatch("reservation")] | None = None
    overcommit: Annotated[bool, Sbatch("overcommit")] = False


def test_a_field_is_all_that_a_new_flag_needs(tmp_path: Path) -> None:
    def of(*line: str) -> set[str]:
        return flags(split(line, OneMore).read(OneMore), 1, None, tmp_path)

    asked = ["--reservation=mine", "--overcommit", "--qos=q", "--gpus_per_node=2"]
    added = {"--reservation=mine", "--overcommit", "--qos=q", "--gpus-per-node=2", "--ntasks-per-node=2"}
    assert of(*asked) - of() == added
    with pytest.raises(ConfigError, match="reservation is not the user's to give here; give --reservation"):
        of("--sbatch=reservation=mine")


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("--nodes=0", "--nodes: 0 is impossible; accepted: whole numbers from 1 up"),
        ("--cpus_per_task=two", "--cpus_per_task: two is impossible"),
        ("--gpus_per_node=-1", "--gpus_per_node: -1 is impossible; accepted: whole numbers from 0 up"),
        ("--mem=lots", "--mem: lots is impossible; accepted: 500M"),
        ("--grace=18000", "--grace: 18000 seconds are not less than --time"),
        ("--sbatch=nodes=4", "--sbatch: nodes is not the user's to give here; give --nodes"),
        ("--sbatch=--array=0-9", "--sbatch: array is not the user's to give here; give --parallel"),
        ("--sbatch=output=x", "--sbatch: output is not the user's to give here; give --out"),
        (
            "--sbatch=node list=n1",
            "--sbatch: node list=n1 is impossible; accepted: options of sbatch",
        ),
    ],
)
def test_impossible_options_are_refused(option: str, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(option)
    assert str(error.value).startswith(message)


def test_more_ranks_than_gpus_are_refused() -> None:
    with pytest.raises(ConfigError, match="--ranks_per_node: 3 ranks for 2"):
        read("--gpus_per_node=2", "--ranks_per_node=3")
