"""Runs on a real Slurm: jobs that are submitted, interrupted in every way, lost and refused."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
import yaml
from launching import SMALL, Numbers, numbers, options, own_model, simulated
from slurm_cluster import (
    PROJECT,
    SCRIPT,
    command,
    dev_cluster,
    ended,
    newest_job,
    state,
    submitted,
    until,
    without_slurmd,
)

from launch.run.trial import Trial
from launch.slurm.following import follow
from launch.slurm.jobs import submit
from launch.slurm.options import SlurmOptions
from launch.slurm.submitted import unfinished
from launch.submit import main

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

LONG = {**own_model("Held"), "rounds": 30, "checkpoint_every": 5, "seed": 3}


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("slurm")
    with dev_cluster(folder):
        yield folder


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Numbers:
    """What SMALL gives in this process."""
    return numbers(simulated(SMALL, tmp_path_factory.mktemp("alone")))


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Numbers:
    """What LONG gives in this process."""
    return numbers(simulated(LONG, tmp_path_factory.mktemp("uninterrupted")))


def test_two_runs_at_once_on_the_same_two_nodes_give_the_bits_of_one_process(
    tmp_path: Path, alone: Numbers, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hold = tmp_path / "hold"
    hold.touch()  # neither ends before both are there

    def release() -> None:
        running = ("squeue", "--noheader", "--states=RUNNING", "--format=%j")
        try:
            until(lambda: {"first", "second"} <= set(command(*running).split()), "both jobs")
        finally:
            hold.unlink()

    first, job = submitted({**own_model("Held"), "name": "first"}, tmp_path, "--nodes=2")
    with ThreadPoolExecutor(1) as threads:
        released = threads.submit(release)
        code = main([*options({**own_model("Held"), "name": "second", "out": tmp_path}), "--nodes=2", "--wait"])
        released.result()
    out, err = capfd.readouterr()
    assert (code, err) == (0, "")
    assert "2 rank(s) on cpu" in out and "round 3/3" in out and out.rstrip().endswith("[1/1] second finished")
    assert ended(job) == "COMPLETED"
    assert numbers(first) == numbers(tmp_path / "second") == alone


def test_an_array_tells_how_each_of_its_runs_ended(tmp_path: Path, alone: Numbers) -> None:
    points: dict[str, dict[str, object]] = {
        "same": {},
        "other": {"seed": 1},
        "broken": {"lr": 1e6},
        "lost": {"data": "ImageFolder", "data.root": "/nowhere"},
    }
    trials = [Trial(label, tmp_path / label, tuple(options({**SMALL, **point}))) for label, point in points.items()]
    jobs = submit(trials, SlurmOptions(time="60"), tmp_path / "array", parallel=2)
    waiting = {label: job.job for label, job in unfinished(trials).items()}
    assert waiting == dict(zip(points, (job.job_id for job in jobs), strict=True))
    said: list[str] = []
    failed = follow(jobs, trials, said.append)
    assert {label: failure.code for label, failure in failed.items()} == {"broken": 1, "lost": 2}
    assert (
        "a smaller --lr usually helps" in failed["broken"].why and str(tmp_path / "broken.log") in failed["broken"].why
    )
    assert "/nowhere" in failed["lost"].why
    assert len(said) == 4 and sum(line.endswith("finished") for line in said) == 2
    assert numbers(tmp_path / "same") == alone != numbers(tmp_path / "other")
    assert len({job.job_id.partition("_")[0] for job in jobs}) == 1
    assert "#SBATCH --array=0-3%2" in jobs[0].paths.submission_file.read_text()
    assert unfinished(trials) == {}


def test_a_job_that_waits_keeps_the_options_of_its_submission(tmp_path: Path, alone: Numbers) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(yaml.safe_dump(dict(SMALL)))
    run, job = submitted({"config": file, "name": "waited"}, tmp_path, "--sbatch=hold")
    file.write_text("lr: null, and nonsense")
    command("scontrol", "release", job)
    assert ended(job) == "COMPLETED"
    assert numbers(run) == alone


def requeue(job: str) -> None:
    command("scontrol", "requeue", job)


def preempt(job: str) -> None:
    for number in ("TERM", "USR2"):
        command("scancel", f"--signal={number}", job)


def terminate(job: str) -> None:
    command("scancel", "--signal=TERM", job)


def warn(job: str) -> None:
    command("scancel", "--signal=USR2", job)


def held(place: Path, rounds: int) -> Path:
    """Make a folder in which a run waits once it has so many rounds."""
    place.mkdir()
    (place / "hold").write_text(str(rounds))
    return place


def left(mark: str, place: Path) -> bool:
    """Whether a run in a folder has left a mark: `waits` or `asked`."""
    return any(place.glob(f"{mark}.*"))


def interrupt_all(waiting: dict[Path, tuple[Callable[[str], None], str]]) -> None:
    """Interrupt each job once the run in its place waits."""

    def interrupt_next() -> bool:
        for place in [each for each in waiting if left("waits", each)]:
            interrupt, job = waiting.pop(place)
            interrupt(job)
            until(partial(left, "asked", place), "the signal")
            (place / "hold").unlink()
        return not waiting

    until(interrupt_next, "two rounds")


def test_runs_that_are_stopped_and_requeued_end_in_the_same_bits(
    tmp_path: Path, uninterrupted: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    interruptions: list[tuple[Callable[[str], None], int]] = [(preempt, 2), (requeue, 1), (terminate, 1)]
    jobs = {}
    for interrupt, nodes in interruptions:
        monkeypatch.chdir(held(tmp_path / interrupt.__name__, 2))
        run, job = submitted(LONG, Path.cwd(), f"--nodes={nodes}")
        jobs[run.parent] = (interrupt, job)
    interrupt_all(dict(jobs))
    for place, (_, job) in jobs.items():
        run = place / "run"
        assert ended(job) == "COMPLETED", run
        log = (place / "run.log").read_text()
        assert re.search(r"attempt 1, .*\n.*going on after round [1-9]\d?\n", log), log
        assert numbers(run) == uninterrupted, run


def test_a_run_that_was_preempted_at_once_begins_anew(tmp_path: Path, alone: Numbers) -> None:
    run, job = submitted({**SMALL, "name": "early"}, tmp_path)
    until(run.with_name("early.log").exists, "the job")
    preempt(job)
    assert ended(job) == "COMPLETED"
    assert numbers(run) == alone and "attempt 1" in run.with_name("early.log").read_text()


def test_a_job_without_requeues_ends_when_it_is_preempted(
    tmp_path: Path, uninterrupted: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = held(tmp_path / "place", 2)
    monkeypatch.chdir(place)
    run, job = submitted(LONG, place, "--requeues=0")
    interrupt_all({place: (preempt, job)})
    assert ended(job) == "FAILED" and not (run / "summary.json").exists()
    log = (place / "run.slurm" / f"{job}_0_log.err").read_text()
    assert "Job not requeued because: checkpoint function returned None" in log and "scontrol" not in log
    assert main([f"--resume={run}", "--wait"]) == 0 and numbers(run) == uninterrupted


def test_a_run_goes_on_when_a_node_comes_back(
    tmp_path: Path, uninterrupted: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = held(tmp_path / "place", 6)
    monkeypatch.chdir(place)
    run, job = submitted({**LONG, "name": "down"}, place, "--nodes=2")
    until(partial(left, "waits", place), "a checkpoint")
    command("scontrol", "update", "nodename=n2", "state=down", "reason=test")
    (place / "hold").unlink()
    until(lambda: state(job) == "PENDING", "the requeue")
    assert not (run / "summary.json").exists()
    command("scontrol", "update", "nodename=n2", "state=resume")
    assert ended(job) == "COMPLETED"
    assert numbers(run) == uninterrupted and "going on after round" in run.with_name("down.log").read_text()


def test_a_run_goes_on_elsewhere_once_its_lost_node_lets_go_of_it(
    tmp_path: Path, cluster: Path, uninterrupted: Numbers, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = held(tmp_path / "place", 6)
    monkeypatch.chdir(place)
    run, job = submitted({**LONG, "name": "lost"}, place)
    log = run.with_name("lost.log")
    until(partial(left, "waits", place), "a checkpoint")
    node = command("squeue", "--noheader", f"--jobs={job}", "--format=%N").strip()
    holder = (run / ".lock").read_text()
    with without_slurmd(cluster, node):
        # the old attempt lives on, and does nothing
        until(lambda: "attempt 1" in log.read_text(), "the second attempt")
        other = "n2" if node == "n1" else "n1"
        assert f"attempt 1, 1 rank(s) on {other}\n" in log.read_text()
        assert (run / ".lock").read_text() == holder
    until(lambda: (run / ".lock").read_text() != holder, "the end of the first attempt")
    (place / "hold").unlink()
    assert ended(job) == "COMPLETED"
    assert numbers(run) == uninterrupted


def test_a_cancelled_run_is_told_and_can_be_resumed(
    tmp_path: Path, uninterrupted: Numbers, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = held(tmp_path / "place", 2)
    monkeypatch.chdir(place)
    run, job = submitted({**LONG, "name": "run"}, place)
    until(partial(left, "waits", place), "a round")
    capfd.readouterr()
    assert main([f"--resume={run}"]) == 2
    assert f"job {job} of this run has not ended" in capfd.readouterr().err
    command("scancel", job)
    (place / "hold").unlink()
    assert ended(job) == "CANCELLED"
    assert main([f"--resume={run}", "--wait"]) == 0
    assert newest_job(run) != job and numbers(run) == uninterrupted


def test_the_scripts_train_and_go_on(tmp_path: Path, uninterrupted: Numbers) -> None:
    asked = options({key: value for key, value in LONG.items() if key != "name"})
    words = ["--parsable", "--gpus-per-node=1", "--cpus-per-task=1", "--export=ALL,OUT=out"]
    jobs = {}
    for name in ("train", "train_multinode"):
        place = held(tmp_path / name, 2)
        if name == "train":
            simulated({**LONG, "rounds": 1}, place / "out")  # its summary is not that of all rounds
        script = str(PROJECT / "slurm" / f"{name}.sbatch")
        job = command("sbatch", *words, f"--chdir={place}", script, "run", *asked).strip()
        jobs[place] = (warn, job)
    interrupt_all(dict(jobs))
    for place, (_, job) in jobs.items():
        log = place / f"fl_ddp-{job}.log"
        assert ended(job) == "COMPLETED", log.read_text()
        assert numbers(place / "out" / "run") == uninterrupted
        assert "going on after round" in log.read_text()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--slurm_partition=mian"], "--slurm_partition: Slurm has no partition mian; did you mean main?"),
        (["--slurm_partition=x"], "--slurm_partition: Slurm has no partition x; there are main, low"),
        (["--cpus_per_task=100"], "sbatch refuses: "),
        (["--sbatch=nodelist=n7"], "sbatch refuses: "),
    ],
)
def test_what_slurm_cannot_do_is_one_line_and_leaves_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    all_jobs = ("squeue", "--noheader", "--states=all", "--format=%i")
    before = command(*all_jobs)
    code = main([*options({**SMALL, "out": tmp_path}), *words])
    err = capfd.readouterr().err
    assert code == 2 and err.count("\n") == 1 and err.startswith(f"submit: error: {message}")
    assert list(tmp_path.iterdir()) == []
    assert command(*all_jobs) == before


def test_clusters_live_side_by_side_and_leave_nothing(tmp_path: Path, cluster: Path) -> None:
    up, again = (subprocess.run([SCRIPT, "up", tmp_path], capture_output=True, text=True) for _ in range(2))
    assert up.returncode == 0 and up.stdout == again.stdout == f"export SLURM_CONF={tmp_path}/slurm.conf\n"
    ports = [set(re.findall(r"Port=(\d+)", (each / "slurm.conf").read_text())) for each in (tmp_path, cluster)]
    assert len(ports[0] | ports[1]) == 6
    subprocess.run([SCRIPT, "down", tmp_path], check=True)
    assert not tmp_path.exists() and command("sinfo", "--noheader", "--format=%n").split() != []
    assert str(tmp_path) not in command("ps", "-e", "-o", "args")
    assert subprocess.run([SCRIPT, "status", tmp_path], capture_output=True).returncode == 1
