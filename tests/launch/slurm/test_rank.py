"""What a job of Slurm leaves where it cannot read what its run has left; Slurm and the run are stand-ins here."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from types import SimpleNamespace

import pytest

from launch.run.failure import Failure, failure_beside, read_failure
from launch.slurm.rank import Rank


@pytest.fixture(autouse=True)
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    paths = SimpleNamespace(stderr=tmp_path / "12_0_log.err")
    task = SimpleNamespace(job_id="12", global_rank=0, num_tasks=1, num_nodes=1, paths=paths)
    monkeypatch.setattr("launch.slurm.rank.JobEnvironment", lambda: task)
    monkeypatch.setenv("SLURM_STEP_NODELIST", "here")
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def ended(tmp_path: Path) -> tuple[int | str | None, Failure | None, str]:
    """The exit code of a job, the failure that it leaves beside the run's folder, and the last line of the log."""
    with pytest.raises(SystemExit) as end:
        Rank(str(tmp_path / "run"), (), (), 90)()
    log = (tmp_path / "run.log").read_text()
    return end.value.code, read_failure(failure_beside(tmp_path / "run")), log.splitlines()[-1]


def test_a_note_that_cannot_be_read_is_the_runs_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(self: Rank, log: FileIO, note: Path) -> int:
        note.touch()
        return 1

    monkeypatch.setattr(Rank, "_train", fails)
    code, failure, line = ended(tmp_path)
    why = f"{tmp_path / '12_0_failure.json'}: is not what a run leaves that failed (Expecting value: line 1 column 1"
    assert code == 2 and failure and (failure.code, failure.job) == (2, "12") and str(failure.why).startswith(why)
    assert line == f"fl_ddp: error: {failure.why}"


def test_a_run_that_cannot_be_read_has_not_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(self: Rank, log: FileIO, note: Path) -> int:
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / "config.yaml").write_text("rounds: several\n")
        return 0

    monkeypatch.setattr(Rank, "_train", ends)
    code, failure, line = ended(tmp_path)
    assert code == 2 and failure and "config.yaml" in str(failure.why)
    assert line == f"fl_ddp: error: {failure.why}"


def test_a_process_that_is_killed_without_a_note_says_so_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Rank, "_train", lambda *_: -signal.SIGKILL)
    code, failure, line = ended(tmp_path)
    assert code == 128 + signal.SIGKILL and failure and failure.code == -signal.SIGKILL
    assert line == f"fl_ddp: error: {failure.why}" and "SIGKILL" in line
