"""Submitting to a Slurm that refuses; sbatch is a stand-in here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from launching import SMALL, options
from submitit.slurm.slurm import SlurmExecutor

from fl_ddp.errors import ConfigError
from fl_ddp.results.run_folder import RunFolder, is_held
from launch import sweep
from launch.run.trial import Trial
from launch.slurm.following import JobFailure, follow
from launch.slurm.jobs import submit
from launch.slurm.options import SlurmOptions
from launch.slurm.queue import check_slurm, job_states
from launch.slurm.runs import make_there
from launch.slurm.submitted import Submitted, unfinished

SBATCH = """#!/bin/sh
[ -e {folder}/refuse ] && {{ echo "sbatch: error: no such account" >&2; exit 1; }}
echo Submitted batch job 12
"""


@pytest.fixture(autouse=True)
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of commands that play Slurm, before the system's on PATH; submitit wants to see srun, too."""
    folder = tmp_path / "bin"
    folder.mkdir()
    said = {
        "sbatch": SBATCH.format(folder=folder),
        "squeue": "#!/bin/sh\necho '12_0|PENDING|None|'\n[ \"$1\" != --all ] || echo '12_1|RUNNING|None|'\n",
        "sinfo": "#!/bin/sh\n[ \"$1\" = --all ] && printf 'main\\nlow\\n'\n",
        "srun": "#!/bin/sh\nexit 1\n",
    }
    for name, script in said.items():
        (folder / name).write_text(script)
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def trials(out: Path, seeds: range) -> list[Trial]:
    return [Trial(f"{seed}", out / f"{seed}", (*options({**SMALL, "seed": seed}),)) for seed in seeds]


def test_a_refused_array_leaves_those_before_it_as_they_were(tmp_path: Path, slurm: Path) -> None:
    folder = tmp_path / "out" / "out.slurm"
    submit(trials(tmp_path / "out", range(2)), SlurmOptions(), folder, None)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert sum(path.name.endswith("_submitted.pkl") for path in before) == 2
    (slurm / "refuse").touch()
    with pytest.raises(ConfigError, match=r"sbatch refuses: .*no such account; nothing is submitted"):
        submit(trials(tmp_path / "out", range(2, 4)), SlurmOptions(), folder, None)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_a_refused_job_leaves_no_folder_that_was_made_for_it(tmp_path: Path, slurm: Path) -> None:
    (slurm / "refuse").touch()
    (tmp_path / "kept").mkdir()
    with pytest.raises(ConfigError, match="sbatch refuses"):
        submit(trials(tmp_path / "kept" / "new" / "runs", range(1)), SlurmOptions(), tmp_path / "kept" / "files", None)
    assert list((tmp_path / "kept").iterdir()) == []


def test_a_folder_is_held_while_jobs_are_submitted_from_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another command writes there must not go when sbatch refuses."""
    folder, held = tmp_path / "files", list[bool]()
    submit_array = SlurmExecutor.submit_array

    def looking(*given: Any) -> Any:
        held.append(is_held(folder))
        return submit_array(*given)

    monkeypatch.setattr(SlurmExecutor, "submit_array", looking)
    submit(trials(tmp_path / "out", range(2)), SlurmOptions(), folder, None)
    assert held == [True] and not is_held(folder)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with (
        RunFolder(folder),
        pytest.raises(ConfigError, match="another command submits from it just now"),
    ):
        submit(trials(tmp_path / "out", range(2, 4)), SlurmOptions(), folder, None)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before and held == [True]


def test_jobs_are_known_from_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    submit(trials(Path("out"), range(2)), SlurmOptions(), Path("files"), None)
    files = str(tmp_path / "files")
    known = unfinished(trials(tmp_path / "out", range(2)))
    assert known == {"0": Submitted("12_0", files), "1": Submitted("12_1", files)}


def test_a_job_goes_on_whatever_other_clusters_of_a_federation_say_of_it(slurm: Path) -> None:
    rows = ["12|REVOKED|None|", "12|RUNNING|None|", "12|REVOKED|None|", "13|REVOKED|None|"]
    (slurm / "squeue").write_text("#!/bin/sh\n" + "".join(f"echo '{row}'\n" for row in rows))
    assert {job: state.name for job, state in job_states().items()} == {"12": "RUNNING", "13": "REVOKED"}


def test_why_a_job_waits_is_told(slurm: Path) -> None:
    rows = ["1|PENDING|Priority|", "2|PENDING|None|", "3|RUNNING|Priority|"]
    (slurm / "squeue").write_text("#!/bin/sh\n" + "".join(f"echo '{row}'\n" for row in rows))
    assert {job: state.waits for job, state in job_states().items()} == {"1": "Priority", "2": "", "3": ""}


def test_a_run_that_two_tables_share_is_submitted_by_one_of_them(tmp_path: Path, slurm: Path) -> None:
    def made(seeds: range, files: str) -> list[str]:
        outcomes = make_there(
            trials(tmp_path, seeds), SlurmOptions(), tmp_path / files, None, wait=False, note=lambda _: None
        )
        return [outcome.words for outcome in outcomes]

    assert made(range(2), "one.slurm") == ["job 12_0", "job 12_1"]
    (slurm / "refuse").touch()
    assert made(range(2), "other.slurm") == ["job 12_0", "job 12_1"]
    (tmp_path / "0.job.json").write_text("[]")
    with pytest.raises(ConfigError, match=r"0\.job\.json: is not what is left of a job"):
        made(range(2), "other.slurm")


def test_what_another_command_has_just_submitted_is_not_submitted_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have looked into the queue before either had the lock."""
    monkeypatch.setattr("launch.slurm.runs.unfinished", lambda _: {})

    def made() -> list[str]:
        there = make_there(
            trials(tmp_path, range(2)), SlurmOptions(), tmp_path / "files", None, wait=False, note=lambda _: None
        )
        return [outcome.words for outcome in there]

    assert made() == ["job 12_0", "job 12_1"]
    with pytest.raises(ConfigError, match="another command has just submitted 0, 1; call this one again"):
        made()


def test_a_damaged_run_is_not_submitted_and_stops_no_other(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0" / "config.yaml").write_text("rounds: several\n")
    made = make_there(
        trials(tmp_path, range(2)), SlurmOptions(), tmp_path / "files", None, wait=False, note=lambda _: None
    )
    assert [each.state for each in made] == ["failed", "submitted"] and "config.yaml" in made[0].words


def test_options_of_points_in_the_queue_are_not_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    base = options({key: value for key, value in SMALL.items() if key != "name"})
    words = [*base, "--name=mine", "--executor=slurm", "--grid"]
    assert sweep.main([*words, "seed=0..1"]) == 0
    before = Path("sweeps/mine/sweep.json").read_bytes()
    capfd.readouterr()
    assert sweep.main([*words, "seed=2..3", "--lr=0.5"]) == 2
    message = (
        "sweep: error: sweeps/mine: job 12_0 of the point seed=0 has not ended, and has other options (--lr=0.5); "
    )
    assert capfd.readouterr().err == f"{message}wait for it, or scancel 12_0\n"
    assert Path("sweeps/mine/sweep.json").read_bytes() == before
    assert sweep.main([*words, "seed=0..1"]) == 0


def test_a_failure_that_cannot_be_read_is_the_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends neither the submission, for which the jobs are in the queue, nor the following of the others."""
    monkeypatch.setattr("launch.slurm.following.job_states", dict)
    (made := trials(tmp_path, range(2)))[0].folder.with_name("0.failure.json").write_text("{")
    jobs = submit(made, SlurmOptions(), tmp_path / "files", None)
    failed = follow(jobs, made, print)
    assert "0.failure.json: is not what a run leaves that failed" in failed["0"].why and failed["0"].state == "FAILED"
    assert "before its first round" in failed["1"].why


def test_a_disk_that_is_full_when_slurm_has_the_jobs_deletes_no_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("submitit.core.utils.JobPaths.move_temporary_file", full)
    base = options({key: value for key, value in SMALL.items() if key != "name"})
    assert sweep.main([*base, "--name=mine", "--executor=slurm", "--grid", "seed=0..1"]) == 1
    assert Path("sweeps/mine/sweep.json").is_file()


def test_several_partitions_are_each_looked_up() -> None:
    check_slurm(SlurmOptions(slurm_partition="main,low"))
    with pytest.raises(ConfigError, match="--slurm_partition: Slurm has no partition mian; did you mean main"):
        check_slurm(SlurmOptions(slurm_partition="low,mian"))


def test_a_missing_command_of_slurm_is_one_line(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (slurm / "sinfo").unlink()
    monkeypatch.setenv("PATH", str(slurm))
    with pytest.raises(ConfigError, match="Slurm does not answer: sinfo cannot be started"):
        check_slurm(SlurmOptions())


def test_a_slurm_that_says_nothing_is_not_waited_for_without_end(slurm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launch.slurm.queue._LONGEST_ANSWER", 1.0)
    (slurm / "squeue").write_text("#!/bin/sh\nexec sleep 60\n")
    with pytest.raises(ConfigError, match="Slurm does not answer: squeue has said nothing for 1 s"):
        job_states()


@pytest.mark.parametrize(
    ("state", "outcome"),
    [("FAILED", "failed"), ("OUT_OF_MEMORY", "failed"), ("COMPLETED", "failed"), ("CANCELLED", "stopped")]
    + [(state, "stopped") for state in ("TIMEOUT", "NODE_FAIL", "PREEMPTED", "GONE")],
)
def test_only_what_has_no_fault_of_its_own_goes_on_with_the_same_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, outcome: str
) -> None:
    monkeypatch.setattr("launch.slurm.runs.follow", lambda *_: {"0": JobFailure("why", 1, state)})
    (found,) = make_there(
        trials(tmp_path, range(1)), SlurmOptions(), tmp_path / "files", None, wait=True, note=lambda _: None
    )
    assert (found.state, found.words) == (outcome, "why")
