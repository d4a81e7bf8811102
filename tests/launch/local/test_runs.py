"""Several runs made on this machine, as the launcher sees their ends."""

from __future__ import annotations

from pathlib import Path

import pytest

from fl_ddp.errors import RunError
from launch.local.runs import make_here
from launch.run.outcome import Outcome
from launch.run.trial import Trial


@pytest.mark.timeout(60)
@pytest.mark.parametrize("ends", [1, 3])
def test_an_end_that_cannot_be_noted_ends_the_launcher(tmp_path: Path, ends: int) -> None:
    """Its folder may be full: no run then begins, and none waits for a place that nobody gives back."""
    trials = [Trial(f"run {i}", tmp_path / str(i), ()) for i in range(12)]
    for trial in trials:  # fails before anything is started
        trial.folder.mkdir()
        (trial.folder / "config.yaml").write_text("rounds: several\n")
    noted = []

    def note(outcome: Outcome) -> None:
        noted.append(outcome.state)
        if len(noted) == ends:
            raise RunError("sweep.csv cannot be written")

    with pytest.raises(RunError, match="cannot be written"):
        make_here(trials, ranks=1, parallel=2, note=note, elsewhere={})
    assert noted == ["failed"] * ends
