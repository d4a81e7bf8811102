"""In which order launchers make runs."""

from __future__ import annotations

from pathlib import Path

from launch.executor import Executor, seed_by_seed
from launch.run.outcome import Outcome
from launch.run.trial import Trial


def test_seeds_come_one_after_another(tmp_path: Path) -> None:
    def trial(*options: str) -> Trial:
        return Trial(" ".join(options), tmp_path / "-".join(options), options)

    seeds = [7, 7, 3, 3, 7, 3]
    given = [trial(f"--seed={seed}", f"--lr={i + 1}") for i, seed in enumerate(seeds)]
    broken = trial("--lr=many")
    ordered = seed_by_seed([given[0], given[2], broken, *given[3:], given[1]])
    assert ordered == [given[0], broken, given[4], given[1], given[2], given[3], given[5]]
    assert seed_by_seed([]) == []


def test_runs_are_made_and_shown_seed_by_seed(tmp_path: Path) -> None:
    trials = [
        Trial(f"{lr} {seed}", tmp_path / f"{lr}{seed}", (f"--lr={lr}", f"--seed={seed}"))
        for lr in (1, 2)
        for seed in (0, 1)
    ]
    here = Executor(parallel=1, ranks=1, slurm=None, wait=True)
    lines = here.preview(trials, tmp_path).splitlines()
    assert ["--seed=0" in line for line in lines] == [True, True, False, False]
    for trial in trials:  # fails before anything is started
        trial.folder.mkdir()
        (trial.folder / "config.yaml").write_text("rounds: several\n")
    noted: list[Outcome] = []
    made = here.make_all(trials, tmp_path, noted.append)
    assert [outcome.trial.label for outcome in noted] == ["1 0", "2 0", "1 1", "2 1"]
    assert [outcome.trial for outcome in made] == trials
