"""Several runs made on this machine, as the launcher sees their ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from fl_ddp.errors import RunError
from fl_ddp.host.failure_note import NOTE
from launch.local.processes import Stop
from launch.local.runs import make_here
from launch.run.failure import Failure
from launch.run.outcome import Outcome
from launch.run.trial import Trial


@pytest.mark.parametrize(
    ("failure", "state", "words"),
    [
        (Failure(3, "rank 1 is lost"), "stopped", "rank 1 is lost ({log}); the same command goes on"),
        (Failure(2, "--lr: 0"), "failed", "--lr: 0 ({log})"),
    ],
)
def test_a_run_that_has_lost_a_rank_goes_on_by_the_same_command(
    failure: Failure, state: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ends(_: Stop, __: Sequence[str], ___: Path, variables: Mapping[str, str]) -> int:
        failure.write(Path(variables[NOTE]))
        return 1

    monkeypatch.setattr(Stop, "run", ends)
    trial = Trial("mine", tmp_path / "mine", ())
    (made,) = make_here([trial], ranks=2, parallel=1, note=lambda _: None, elsewhere={})
    assert (made.state, made.words) == (state, words.format(log=trial.log))


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
