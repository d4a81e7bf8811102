"""Files of JSON, of which some are damaged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import fl_ddp
from fl_ddp.errors import ConfigError
from fl_ddp.reading.json_file import read_json, read_json_if_there
from fl_ddp.results import checkpoint
from fl_ddp.results.summary import read_summary
from launch.run.trial import Trial
from launch.slurm.submitted import job_beside, unfinished
from launch.tables.results_file import read_results

JUNK = pytest.mark.parametrize("junk", [b"", b'{"a": ', b"[1]", b"1", b"\xff\xfe", b"[" * 100_000, b'{"a":' * 100_000])


def test_what_is_there_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    assert read_json_if_there(file, "is none") is None
    file.write_text('\ufeff{"ä": [1]}', encoding="utf-8")  # as an editor of Windows writes it
    assert read_json(file, "is none") == read_json_if_there(file, "is none") == {"ä": [1]}


@JUNK
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path: Path, junk: bytes) -> None:
    (file := tmp_path / "a.json").write_bytes(junk)
    for refused in (read_json, read_json_if_there):
        with pytest.raises(ConfigError, match=rf"^{re.escape(str(file))}: is none \([^\n]+\)$"):
            refused(file, "is none")
    with pytest.raises(ConfigError, match=r"\); accepted: one$"):
        read_json(file, "is none", "one")
    with pytest.raises(ConfigError, match=r"gone\.json: is none .*No such file"):
        read_json(tmp_path / "gone.json", "is none")


@JUNK
def test_a_damaged_summary_says_nothing(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "summary.json").write_bytes(junk)
    assert read_summary(tmp_path) == {}
    with pytest.raises(ConfigError, match=r"summary\.json: is not what a run writes"):
        read_summary(tmp_path, strict=True)


@JUNK
def test_a_damaged_partition_is_refused_in_a_notebook(tmp_path: Path, junk: bytes) -> None:
    (tmp_path / "config.yaml").write_text("{}")
    (tmp_path / "partition.json").write_bytes(junk)
    with pytest.raises(ConfigError, match=r"partition\.json: is not what a run writes"):
        _ = fl_ddp.load(tmp_path).partition


@JUNK
def test_a_damaged_checkpoint_is_refused(tmp_path: Path, junk: bytes) -> None:
    (folder := tmp_path / "checkpoints" / "round_000001").mkdir(parents=True)
    (folder / "state.json").write_bytes(junk + b"}\n")
    with pytest.raises(ConfigError, match=r"state\.json: was edited or damaged; remove .*round_000001 to use the"):
        checkpoint.newest(tmp_path)


@JUNK
def test_damaged_files_of_launchers_are_refused(tmp_path: Path, junk: bytes) -> None:
    trial = Trial("run", tmp_path / "run", ())
    job_beside(trial.folder).write_bytes(junk)
    with pytest.raises(ConfigError, match=r"run\.job\.json: is not what is left of a job"):
        unfinished([trial])
    (tmp_path / "results.json").write_bytes(junk)
    with pytest.raises(ConfigError, match=r"results\.json: is no file of results"):
        read_results(tmp_path / "results.json")
