"""The walk through a study in docs/study.md: its files and commands run, in fewer rounds, and leave such a table."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docs" / "study.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"```\w*\n(.*?)```", re.S)


def called(words: list[str], folder: Path) -> str:
    """What a command prints that ends well."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_its_files_and_commands_leave_its_table(tmp_path: Path) -> None:
    for name in ("study.yaml", "study.points.yaml", "mine.py", "look.py"):
        block = BLOCK.search(TEXT, TEXT.index(f"`{name}`"))
        assert block, name
        (tmp_path / name).write_text(block[1])
    setting = tmp_path / "study.yaml"
    shorter = setting.read_text().replace("rounds: 50", "rounds: 10").replace("task_rounds: 10", "task_rounds: 2")
    setting.write_text(f"{shorter}compile: false\ndevice: cpu\n")
    (commands,) = (block[1].splitlines() for block in BLOCK.finditer(TEXT) if block[1].startswith("python -m launch"))
    printed = [
        called([sys.executable, *shlex.split(line.replace("seed=0..2", "seed=0"))[1:]], tmp_path) for line in commands
    ]
    assert "4/4" in printed[0] and "better in" in printed[2]
    head = next(line for line in TEXT.splitlines() if line.startswith("| keep"))
    for column in head.strip("| ").split(" | "):
        assert column in printed[1]
    assert {"results.md", "tasks_by_round.png", "curves.png"} <= {
        each.name for each in (tmp_path / "sweeps" / "study").iterdir()
    }
    assert "overconfidence" in (tmp_path / "sweeps" / "study" / "results.md").read_text()
    found = called([sys.executable, "look.py"], tmp_path).split()
    assert len(found) == 2 and all(0 <= float(each) <= 1 for each in found)
