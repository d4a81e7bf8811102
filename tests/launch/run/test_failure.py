"""How a launcher knows that a run failed, and why: by a file, whatever the run prints."""

from __future__ import annotations

import errno
import io
import resource
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from launching import SMALL, launched, options, own_model

from fl_ddp.errors import ConfigError, RunError
from fl_ddp.host.failure_note import NOTE, leave_note
from fl_ddp.main import main
from launch.run.failure import Failure, failure_beside, read_failure, why_failed


@pytest.fixture
def note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "note.json"
    monkeypatch.setenv(NOTE, str(file))
    return file


def test_a_run_without_a_folder_leaves_its_exit_code_and_its_words(
    tmp_path: Path, note: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([*options(SMALL), f"--out={tmp_path}", "--clients=0"]) == 2
    failure = read_failure(note)
    assert failure and failure.code == 2 and failure.why is not None
    assert capfd.readouterr().err == f"fl_ddp: error: {failure.why}\n"


@pytest.mark.slow
def test_the_note_of_ranks_that_share_it_is_of_the_one_to_blame(tmp_path: Path) -> None:
    (tmp_path / "fail").write_text("1")
    note = tmp_path / "note.json"
    with launched({**own_model("FailsOnRankOne"), "out": tmp_path}, 2, tmp_path, {NOTE: str(note)}) as launch:
        launch.ended()
    failure = read_failure(note)
    assert failure and failure.code == 1 and str(failure.why).endswith("ValueError: a mistake of the user's model")


@pytest.mark.parametrize("to_blame", [False, True])
def test_a_note_is_whole_or_absent(note: Path, to_blame: bool) -> None:
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        leave_note(1, "the disk is full", to_blame=to_blame)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    assert list(note.parent.iterdir()) == []
    leave_note(1, "a mistake", to_blame=to_blame)
    assert list(note.parent.iterdir()) == [note]


def no_links(*_: object) -> None:
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("linking", [True, False])
def test_what_another_rank_had_to_say_is_kept(note: Path, monkeypatch: pytest.MonkeyPatch, linking: bool) -> None:
    """Also where a file system knows no links, as those of memory sticks and some of the net."""
    if not linking:
        monkeypatch.setattr(Path, "hardlink_to", no_links)
    leave_note(1, None, to_blame=False)
    assert read_failure(note) == Failure(1, None)
    leave_note(1, "a mistake", to_blame=True)
    leave_note(3, "another rank is gone", to_blame=False)
    assert read_failure(note) == Failure(1, "a mistake")
    assert list(note.parent.iterdir()) == [note]


def test_a_note_for_which_there_is_no_room_is_not_left_in_part(note: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, content: Any, /) -> int:
            raise OSError(errno.ENOSPC, "No space left on device")

    whole = Path.open

    def opened(self: Path, mode: str = "r", *given: Any, **options: Any) -> Any:
        file = whole(self, mode, *given, **options)
        return file if mode != "xb" else Full()

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    monkeypatch.setattr(Path, "open", opened)
    with suppress(RunError):
        leave_note(1, None, to_blame=False)
    assert list(note.parent.iterdir()) == []


def test_a_lost_rank_is_no_failure_of_the_run(tmp_path: Path) -> None:
    file = failure_beside(tmp_path / "run")
    assert why_failed(tmp_path / "run") is None
    Failure(3, "another rank is gone", "12", 1).write(file)
    assert why_failed(tmp_path / "run") is None
    Failure(-9, "killed by SIGKILL", "12", 1).write(file)
    assert why_failed(tmp_path / "run") == "killed by SIGKILL"


def test_a_file_that_no_run_left_is_named(tmp_path: Path) -> None:
    file = failure_beside(tmp_path / "run")
    for content in ("it broke", "[]", "{}", '{"code": Infinity, "why": null}', "[" * 100_000):
        file.write_text(content)
        with pytest.raises(ConfigError, match=r"run\.failure\.json: is not what a run leaves that failed"):
            read_failure(file)


def test_a_failure_that_cannot_be_read_is_one(tmp_path: Path) -> None:
    """Of the 200 points of a sweep it hides none of the others."""
    failure_beside(tmp_path / "run").write_text("{")
    assert "is not what a run leaves that failed" in str(why_failed(tmp_path / "run"))


def test_ranks_may_fail_at_once(tmp_path: Path) -> None:
    """All of a job in which nothing can be imported, say; on several nodes nothing else orders them."""
    words = "import sys, pathlib, launch.run.failure as failure\n"
    words += "for _ in range(300): failure.Failure(1, 'x' * int(sys.argv[2])).write(pathlib.Path(sys.argv[1]))"
    file = failure_beside(tmp_path / "run")
    ranks = [subprocess.Popen([sys.executable, "-c", words, str(file), size]) for size in ("1", "2000")]
    assert [rank.wait() for rank in ranks] == [0, 0]
    found = read_failure(file)
    assert found and found.why in ("x", "x" * 2000)
    assert list(tmp_path.iterdir()) == [file]
