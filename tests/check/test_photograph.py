"""What a kill in round 2 leaves is copied with the checkpoint of round 1, however long that takes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from launching import one_thread

from fl_ddp.check.runs import SETTINGS, SOLO, Photograph, metrics
from fl_ddp.config.command_line import from_mapping
from fl_ddp.results import checkpoint
from fl_ddp.results.checkpoint import commit
from fl_ddp.run import run


def test_it_waits_for_a_checkpoint_that_is_not_yet_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(*given: object) -> Path:
        time.sleep(0.5)
        return commit(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(checkpoint, "commit", slow)
    settings = {**SETTINGS, "method": "FedAvg", "out": str(tmp_path), "name": "run"}
    with one_thread():
        run(from_mapping(settings), SOLO, Photograph(tmp_path / "run", tmp_path / "copy"))
    found = checkpoint.newest(tmp_path / "copy").checkpoint
    assert found and found.round == 1 and len(metrics(tmp_path / "copy")) == 1
