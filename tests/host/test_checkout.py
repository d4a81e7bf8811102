"""The commit that result files name."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fl_ddp.host.checkout import commit


def git(folder: Path, *words: str) -> str:
    who = ["-c", "user.name=me", "-c", "user.email=me@here", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *who, *words], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def test_the_commit_is_that_of_the_package_and_says_whether_it_was_edited(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    assert commit(package) is None
    git(tmp_path, "init", "-q")
    assert commit(package) is None  # an environment inside somebody's repository
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    git(tmp_path, "tag", "v1")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert commit(package) == head
    (package / "__init__.py").write_text("# edited\n")
    assert commit(package) == f"{head}-dirty"


def test_without_git_there_is_no_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert commit() is None
