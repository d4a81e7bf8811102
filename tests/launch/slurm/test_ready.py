"""What a job of a script in slurm/ does before its run."""

from __future__ import annotations

from pathlib import Path

import pytest
from written_runs import Written

from fl_ddp.errors import ConfigError
from fl_ddp.results.run_folder import RunFolder
from launch.slurm.ready import make_ready


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--lr", "1", "--out", "other"], "--out: is not the user's to give here; give OUT=FOLDER before sbatch"),
        (["--out=other"], "--out: is not the user's to give here; give OUT=FOLDER before sbatch"),
        (["--name=other"], "--name: is not the user's to give here; give NAME, the script's first word"),
        (["--resume", "runs/a"], "--resume: is not the user's to give here; give NAME: what is there goes on"),
        (["elsewhere"], "elsewhere: belongs to no option"),
    ],
)
def test_where_a_run_lies_is_said_in_one_way(words: list[str], told: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        make_ready(tmp_path / "run", words)
    assert str(error.value).startswith(told)


def test_values_that_are_called_like_an_option_are_none(tmp_path: Path) -> None:
    make_ready(tmp_path / "run", ["--data", "name", "--data.root=--out=x", "--init", "out"])
    assert not (tmp_path / "run").exists()


def test_only_what_has_not_begun_is_removed(tmp_path: Path) -> None:
    begun = Written({}, [0.5, 0.5], 9).at(tmp_path / "begun")
    make_ready(begun, [])
    assert (begun / "metrics.csv").is_file()
    (early := tmp_path / "early").mkdir()
    with RunFolder(early), pytest.raises(ConfigError, match="another run is writing in this folder"):
        make_ready(early, [])
    make_ready(early, ["--lr", "0.5"])
    assert not early.exists()
    (other := tmp_path / "other").mkdir()
    (other / "thesis.tex").touch()
    with pytest.raises(ConfigError, match=r"other: is not the folder of a run; remove it, or choose another NAME$"):
        make_ready(other, [])
    assert (other / "thesis.tex").exists()
