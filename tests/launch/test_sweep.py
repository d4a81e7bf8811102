"""launch.sweep: a run for each point, here on this machine."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launching import SMALL, Ended, checkpoints, launched, numbers, options, own_model, simulated
from written_runs import Written

from fl_ddp.errors import ConfigError
from fl_ddp.results.run_folder import RunFolder, is_held
from launch.executor import Executor
from launch.local.runs import places_for
from launch.run.outcome import Outcome, TrialState
from launch.run.stored import read_run
from launch.run.trial import Trial
from launch.slurm.submitted import Submitted, in_queue
from launch.sweep import main
from launch.sweeps.folder import over, read_sweep
from launch.sweeps.points import folder_name
from launch.sweeps.trials import trials_of

BASE = options({key: value for key, value in SMALL.items() if key != "name"})
SWEEP = [*BASE, "--name", "mine"]
HELD = [*options({key: value for key, value in own_model("Held").items() if key != "name"}), "--name", "mine"]
FOLDER = Path("sweeps/mine")

Sweeping = Callable[..., tuple[int, str, str]]


@pytest.fixture
def sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Sweeping:
    """The command, in a working directory of its own: exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*words: str) -> tuple[int, str, str]:
        code = main(words)
        return (code, *capfd.readouterr())

    return call


def files(sweep: Path, points: Sequence[str]) -> dict[Path, int]:
    """When each file of some runs was written."""
    return {file: file.stat().st_mtime_ns for point in points for file in (sweep / point).rglob("*") if file.is_file()}


def test_a_retry_that_is_stopped_goes_on_by_the_same_command(sweep: Sweeping, monkeypatch: pytest.MonkeyPatch) -> None:
    def ending(state: TrialState) -> None:
        def make_all(_: Executor, trials: Sequence[Trial], __: Path, note: Callable[[Outcome], None]) -> list[Outcome]:
            outcomes = [Outcome(trial, state, "it broke") for trial in trials]
            for outcome in outcomes:
                note(outcome)
            return outcomes

        monkeypatch.setattr(Executor, "make_all", make_all)

    ending("failed")
    assert sweep(*SWEEP, "--grid", "lr=0.1,0.2")[0] == 1
    ending("stopped")
    for _ in range(2):
        code, out, err = sweep("--name", "mine", "--retry")
        assert (code, "0 are finished, 2 to run" in out) == (1, True) and "the same command goes on" in err


@pytest.mark.slow
def test_a_point_that_has_lost_its_rounds_has_failed(sweep: Sweeping) -> None:
    """Its run has all of them for itself, and would never go on."""
    simulated({**SMALL, "rounds": 2, "name": "seed=0", "seed": 0}, FOLDER)
    (FOLDER / "seed=0" / "metrics.csv").unlink()
    rounds = [each for each in SWEEP if not each.startswith("--rounds")]
    code, _, err = sweep(*rounds, "--rounds", "2", "--grid", "seed=0")
    assert code == 1 and "metrics.csv has 0 rounds, and its summary.json 2; remove its folder" in err, err
    assert read_sweep(FOLDER).entries["seed=0"].failed


@pytest.mark.slow
@pytest.mark.parametrize("file", ["metrics.csv", "config.yaml"])
def test_a_damaged_file_of_a_point_stops_no_other(sweep: Sweeping, file: str) -> None:
    simulated({**SMALL, "name": "seed=0", "seed": 0}, FOLDER)
    (FOLDER / "seed=0" / file).write_text("round,accuracy\none,more\n")
    code, out, _ = sweep(*SWEEP, "--grid", "seed=0..1", "--dry_run")
    assert code == 0 and f"# {FOLDER}/seed=0/{file}" in out and out.count("python -m fl_ddp.main") == 1
    code, out, err = sweep(*SWEEP, "--grid", "seed=0..1")
    failed = f"failed: seed=0: {FOLDER}/seed=0/{file}"
    assert code == 1 and "2 points, 0 are finished, 2 to run" in out and err.count("failed: ") == 1
    assert failed in err and read_sweep(FOLDER).entries["seed=0"].failed
    code, out, err = sweep("--name", "mine", "--retry")
    assert code == 1 and "2 points, 1 are finished, 1 to run" in out and failed in err
    shutil.rmtree(FOLDER / "seed=0")
    assert sweep("--name", "mine", "--retry")[0] == 0


@pytest.mark.slow
def test_a_sweep_runs_its_points_skips_them_and_tries_the_failed_ones_again(sweep: Sweeping) -> None:
    grid = [*SWEEP, "--grid", "lr=0.05,1e6", "--grid", "seed=3..4"]
    code, out, err = sweep(*grid, "--parallel", "2")
    assert code == 1 and "4 points, 0 are finished, 4 to run" in out and "[4/4]" in out
    good, bad = ([f"lr={lr},seed={seed}" for seed in (3, 4)] for lr in ("0.05", "1e6"))
    assert [name in err for name in (*good, *bad)] == [False, False, True, True]
    assert err.count("a smaller --lr usually helps") == 2 and "--retry runs these 2 again" in err
    for name in good:
        run = read_run(FOLDER / name)
        assert run and run.ended and run.config["lr"] == 0.05
    alone = simulated({**SMALL, "lr": 0.05, "seed": 4}, Path("alone"))
    assert numbers(FOLDER / good[1]) == numbers(alone)

    # the second call: nothing is run, the failed ones are listed; a third point is added
    before, logs = files(FOLDER, (*good, *bad)), {file: file.read_bytes() for file in FOLDER.glob("*.log")}
    code, out, err = sweep(*grid)
    assert code == 1 and "2 are finished, 0 to run" in out and err.count("a smaller --lr usually helps") == 2
    assert all(f"(sweeps/mine/{name}.log)" in err for name in bad)
    assert files(FOLDER, (*good, *bad)) == before
    code, out, err = sweep(*SWEEP, "--grid", "lr=0.05", "--grid", "seed=3..5")
    assert (code, err) == (0, "") and "3 points, 2 are finished, 1 to run" in out
    content = json.loads((FOLDER / "sweep.json").read_text())
    assert content["varied"] == ["lr", "seed"] and content["base"] == BASE and len(content["points"]) == 5
    assert {p["folder"] for p in content["points"] if "failed" in p} == set(bad)
    assert {p["folder"]: p["options"] for p in content["points"]}[good[0]] == {"lr": "0.05", "seed": "3"}

    # the failed ones alone run again, without the points being said again
    before = files(FOLDER, good)
    code, out, err = sweep("--name", "mine", "--retry")
    assert code == 1 and "5 points, 3 are finished, 2 to run" in out and err.count("a smaller --lr usually helps") == 2
    assert {file.stem for file, text in logs.items() if file.read_bytes() != text} == set(bad)
    assert files(FOLDER, good) == before


@pytest.mark.slow
def test_what_is_not_finished_goes_on_to_more_rounds(sweep: Sweeping) -> None:
    for seed, rounds in enumerate((3, 2)):
        simulated({**SMALL, "rounds": rounds, "seed": seed, "name": f"seed={seed}"}, FOLDER)
    assert sweep(*SWEEP, "--rounds=2", "--grid", "seed=0..1")[0] == 0
    code, out, err = sweep("--name", "mine", "--rounds", "3")
    assert (code, err) == (0, "") and "2 points, 1 are finished, 1 to run" in out
    assert "going on after round 2" in (FOLDER / "seed=1.log").read_text()
    assert numbers(FOLDER / "seed=1") == numbers(simulated({**SMALL, "seed": 1}, Path("alone")))


def test_another_base_under_the_same_name_is_refused(sweep: Sweeping) -> None:
    simulated({**SMALL, "name": "seed=0"}, FOLDER)
    assert sweep(*SWEEP, "--grid", "seed=0")[0] == 0
    before = (FOLDER / "sweep.json").read_text()
    code, _, err = sweep(*SWEEP, "--lr=0.5", "--grid", "seed=1")
    assert code == 2 and "seed=0: holds another run (lr is 0.1, not 0.5)" in err
    assert (FOLDER / "sweep.json").read_text() == before and not (FOLDER / "seed=1").exists()


def test_points_that_another_command_adds_meanwhile_are_kept(sweep: Sweeping, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {key: value for key, value in SMALL.items() if key not in ("name", "rounds")}
    for seed in (0, 1):
        Written({**settings, "seed": seed}, [0.1, 0.2, 0.3]).at(FOLDER / f"seed={seed}")
    shutil.move("sweeps", "done")
    others: list[list[str]] = []

    def trials_while_another_command_runs(*given: Any) -> dict[str, Trial]:
        if others:
            shutil.copytree("done", "sweeps", dirs_exist_ok=True)
            assert main(others.pop()) == 0
        return trials_of(*given)

    monkeypatch.setattr("launch.sweep.trials_of", trials_while_another_command_runs)

    def points() -> list[str]:
        return [point["folder"] for point in json.loads((FOLDER / "sweep.json").read_text())["points"]]

    other = [*SWEEP, "--grid", "seed=1"]
    others.append(other)
    assert sweep(*SWEEP, "--grid", "seed=0")[0] == 0 and points() == ["seed=1", "seed=0"]

    # one that fails leaves what the other one wrote, and does not take its new folder away
    shutil.rmtree("sweeps")
    others.append(other)
    monkeypatch.setenv("PATH", "")
    assert sweep(*SWEEP, "--grid", "seed=0..2", "--executor", "slurm")[0] == 2 and points() == ["seed=1"]

    shutil.rmtree("sweeps")
    others.append(other)
    code, _, err = sweep(*SWEEP, "--grid", "seed=0", "--eval_every", "2")
    assert code == 2 and "sweeps/mine: another command has just given it other options" in err
    assert points() == ["seed=1"]


def interrupted(words: list[str], folder: Path) -> Ended:
    """A sweep that Ctrl-C stops while two processes are in the local steps of their third round."""
    (folder / "hold").write_text("2")
    with launched(words, 1, folder) as launch:
        launch.until(lambda: len(list(folder.glob("waits.*"))) == 2)
        launch.launcher.send_signal(signal.SIGINT)
        launch.until(lambda: len(list(folder.glob("asked.*"))) == 2)
        (folder / "hold").unlink()
        return launch.ended()


@pytest.mark.slow
def test_ctrl_c_stops_runs_of_several_ranks_as_it_does_those_of_one(tmp_path: Path) -> None:
    """Their torchrun ends with an exit code of its own, and a traceback."""
    words = ["-m", "launch.sweep", *HELD, "--grid", "seed=0..1", "--parallel", "1", "--ranks", "2"]
    ended = interrupted(words, tmp_path)
    assert ended.code == 1 and "stopped: 2 of 2 points; the same command goes on" in ended.err
    assert "failed" not in ended.err + (tmp_path / FOLDER / "sweep.json").read_text()
    with launched(words, 1, tmp_path) as launch:
        assert (again := launch.ended()) == again._replace(code=0, err="")


@pytest.mark.slow
def test_ctrl_c_stops_all_runs_and_the_same_command_goes_on(tmp_path: Path) -> None:
    words = ["-m", "launch.sweep", *HELD, "--grid", "seed=0..3", "--parallel", "2"]
    runs = [tmp_path / FOLDER / f"seed={seed}" for seed in (0, 1)]
    ended = interrupted(words, tmp_path)
    assert ended.code == 1 and "stopped: 4 of 4 points; the same command goes on" in ended.err
    assert "failed" not in ended.err + (tmp_path / FOLDER / "sweep.json").read_text()
    stopped = [read_run(run) for run in runs]
    assert [run and (run.ended, run.rounds, checkpoints(run.folder)[-1]) for run in stopped] == [
        (False, 2, "round_000002")
    ] * 2
    assert not (tmp_path / FOLDER / "seed=2").exists()
    with launched(words, 1, tmp_path) as launch:
        ended = launch.ended()
    assert (ended.code, ended.err) == (0, "")


@pytest.mark.slow
def test_a_second_ctrl_c_quits_at_once(tmp_path: Path) -> None:
    words = ["-m", "launch.sweep", *HELD, "--grid", "seed=0..1", "--parallel", "2"]
    (tmp_path / "hold").write_text("1")
    with launched(words, 1, tmp_path) as launch:
        launch.until(lambda: len(list(tmp_path.glob("waits.*"))) == 2)
        launch.launcher.send_signal(signal.SIGINT)
        launch.until(lambda: len(list(tmp_path.glob("asked.*"))) == 2)
        assert len(launch.alive()) == 3, "the first one did not wait for the local steps"
        launch.launcher.send_signal(signal.SIGINT)
        ended = launch.ended()
    assert ended.code == 1 and "stopped: 2 of 2 points" in ended.err


@given(st.integers(2, 20), st.integers(1, 4), st.integers(0, 8), st.integers(1, 64))
def test_runs_at_once_share_the_machine_evenly(number: int, ranks: int, gpus: int, cores: int) -> None:
    names = [f"GPU-{index}" for index in range(gpus)]
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("OMP_NUM_THREADS", raising=False)
        places = places_for(number, ranks, names, cores)
    assert len(places) == number
    threads = number * ranks * int(places[0]["OMP_NUM_THREADS"])
    assert threads <= max(cores, number * ranks) and threads > cores - number * ranks
    used = [place["CUDA_VISIBLE_DEVICES"].split(",") for place in places if gpus]
    assert all(len(own) == len(set(own)) == min(ranks, gpus) for own in used)
    counts = [sum(name in own for own in used) for name in names]
    assert not gpus or ranks > gpus or max(counts) - min(counts) <= 1


@pytest.mark.slow
def test_the_second_point_compiles_nothing(sweep: Sweeping, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = tmp_path / "cache"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(cache))
    points = [*SWEEP, "--compile=true", "--method=FedProx", "--rounds=1", "--parallel=1", "--grid"]
    assert sweep(*points, "lr=0.1", "--grid", "partition.alpha=0.5", "--grid", "seed=0")[0] == 0
    built = set(cache.rglob("*.so"))
    assert built
    assert sweep(*points, "lr=0.05", "--grid", "partition.alpha=0.3", "--grid", "seed=1")[0] == 0
    assert set(cache.rglob("*.so")) == built


@pytest.mark.slow
def test_a_run_that_something_else_writes_is_left_alone(sweep: Sweeping) -> None:
    run = FOLDER / "seed=0"
    run.mkdir(parents=True)
    with RunFolder(run):
        assert is_held(run)
        code, out, err = sweep(*SWEEP, "--grid", "seed=0")
    assert not is_held(run)
    assert code == 1 and "another run is writing in its folder" in out and "stopped: 1 of 1 points" in err
    assert sweep(*SWEEP, "--grid", "seed=0")[0] == 0


def test_a_run_that_waits_in_slurms_queue_is_not_made_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [Trial(name, tmp_path / name, tuple(BASE)) for name in ("waits", "ended")]
    for trial, job in zip(trials, ("12_3", "12_4"), strict=True):
        Submitted(job, "files").write(trial.folder)
    (squeue := tmp_path / "squeue").write_text("#!/bin/sh\necho '12_3|PENDING|Priority|'\n")
    squeue.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    monkeypatch.setattr(Trial, "command", lambda *_: ["/bin/true"])
    waits, ended = Executor(1, 1, None, wait=False).make_all(trials, tmp_path)
    assert (waits.state, waits.words) == ("stopped", "job 12_3 of it has not ended; wait for it, or scancel 12_3")
    assert ended.words == "stopped after round 0; the same command goes on"


def test_jobs_of_another_machines_slurm_hold_nothing_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    Submitted("12_3", "files").write(tmp_path / "run")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert in_queue([Trial("run", tmp_path / "run", ())]) == {}


def test_a_folder_that_cannot_be_made_is_one_line(sweep: Sweeping) -> None:
    Path("sweeps").touch()
    code, _, err = sweep(*SWEEP, "--grid", "seed=0")
    assert (code, err) == (1, "sweep: error: sweeps/mine: cannot be written (Not a directory)\n")


def test_dry_run_prints_the_commands(sweep: Sweeping) -> None:
    code, out, err = sweep("--grid", "lr=0.1,1", "--dry_run", "--ranks", "2", "--rounds", "2", "--name", "mine")
    assert (code, err) == (0, "") and out.splitlines()[1:] == [
        "python -m torch.distributed.run --standalone --nproc_per_node=2 -m fl_ddp.main --rounds=2 "
        f"--lr={lr} --out=sweeps/mine --name=lr={lr}"
        for lr in ("0.1", "1")
    ]
    assert not Path("sweeps").exists()


def test_dry_run_prints_the_file_for_slurm_where_there_is_none(sweep: Sweeping) -> None:
    slurm = ["--executor", "slurm", "--time", "60", "--nodes=2", "--parallel=2"]
    code, out, err = sweep("--grid", "lr=0.1,1,2", "--dry_run", "--name", "mine", *slurm)
    assert (code, err) == (0, "") and "-m fl_ddp.main --lr=2 --out=sweeps/mine --name=lr=2" in out
    for line in ("--array=0-2%2", "--nodes=2", "--time=60", "--job-name=mine"):
        assert f"#SBATCH {line}\n" in out
    assert not Path("sweeps").exists()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--name: is missing"),
        (["--name", "mine"], "sweeps/mine: has no points yet; give --grid, --points or --random"),
        (["--name", "a/b"], "--name: 'a/b' is not the name of a folder"),
        (["--name", "ä" * 81], f"--name: {'ä' * 20}... is of 162 bytes; accepted: up to 160"),
        (["--name", "mine", "--grid"], "--grid: needs a value"),
        (["--name", "mine", "--grid", "seed=3..1"], "--grid seed=3..1: 3..1 is an empty range"),
        (["--name", "mine", "--grid", "lrr=1"], "--grid lrr=1: --lrr: unknown option; did you mean --lr?"),
        (["--name", "mine", "--grid", "method.lam=1"], "--grid method.lam=1: --method.lam: unknown option"),
        (["--name", "mine", "--grid", "lr=0.1,-1"], "--grid lr=0.1,-1: --lr: -1.0 is impossible"),
        (["--name", "mine", "--grid", "lr=0.1,0.10"], "lr=0.1,0.10: the points lr=0.1 and lr=0.10 are the same run"),
        (["--name", "mine", "--grid", "lr=0.1,0.10,x"], "--grid lr=0.1,0.10,x: --lr: x has the wrong type"),
        (["--name", "mine", "--grid", "lr=1", "--lr", "2"], "--grid lr=1: --lr is given to all runs already"),
        (["--name", "mine", "--grid", "lr=1", "--clients", "0"], "--clients: 0 is impossible"),
        (["--name", "mine", "--grid", "clients=1", "--cohort", "2"], "--cohort: 2 is more than the 1 clients there"),
        (["--name", "mine", "--draw", "lr=uniform(1,2)"], "--draw: says what to draw, but not how often"),
        (["--name", "mine", "--random", "many"], "--random: many is impossible"),
        (["--name", "mine", "--random", "3", "--draw_seed", "-1"], "--draw_seed: -1 is impossible"),
        (["--name", "mine", "--points", "none.csv"], "--points none.csv: cannot be read"),
        (["--name", "mine", "--gird", "lr=1"], "--gird: unknown option; did you mean --grid?"),
        (["--name", "mine", "--grid", "lr=1", "--parallel", "0"], "--parallel: 0 is impossible"),
        (["--name", "mine", "--grid", "lr=1", "--executor", "cloud"], "--executor: cloud is impossible; accepted: lo"),
        (["--name", "mine", "--grid", "lr=1", "--nodes", "2"], "--nodes: says nothing about runs on this machine"),
        (["--name", "mine", "--grid", "lr=1", "--wait"], "--wait: says nothing about runs on this machine"),
        (["--name", "mine", "--executor", "slurm", "--ranks", "2"], "--ranks: is of runs on this machine"),
        (["--name", "mine", "--resume", "runs/x"], "--resume: is not the user's to give here"),
        (["lr=1"], "lr=1: belongs to no option"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line_and_starts_nothing(sweep: Sweeping, words: Sequence[str], message: str) -> None:
    code, out, err = sweep(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("sweep: error: ") and message in err
    assert not Path("sweeps").exists()


def test_a_point_of_an_earlier_call_that_is_the_same_run_is_told_as_one(tmp_path: Path) -> None:
    it = read_sweep(tmp_path / "mine")
    it.add([{"method": "FedAvg", "seed": "0"}, {"seed": "0"}])
    with pytest.raises(
        ConfigError, match="method=FedAvg,seed=0 and seed=0 are the same run; one is of an earlier call"
    ):
        trials_of(it, axes=[])


def test_help_tells_of_every_option(sweep: Sweeping) -> None:
    code, out, _ = sweep("--help")
    assert code == 0
    for option in ("grid", "points", "random", "draw", "draw_seed", "name", "out", "retry", "executor", "parallel"):
        assert f"  --{option} " in out


@given(st.dictionaries(st.sampled_from(["lr", "out"]), st.text("ab=", min_size=1), min_size=1))
@settings(max_examples=20)
def test_given_options_take_the_place_of_stored_ones(given: dict[str, str]) -> None:
    merged = over(["--config=a.yaml", "--lr=1", "--lr=2", "--flag"], options(given))
    assert merged[-len(given) :] == tuple(options(given))
    assert set(merged) - set(options(given)) == {"--config=a.yaml", "--flag"} | (
        {"--lr=1", "--lr=2"} if "lr" not in given else set()
    )


@given(st.dictionaries(st.sampled_from(["lr", "model.hidden"]), st.sampled_from(["1", "[3,4]", "0.5"]), min_size=1))
@settings(max_examples=10, deadline=None)
def test_every_folder_name_is_a_name_that_a_run_takes(point: dict[str, str]) -> None:
    run = Trial("", Path("sweeps/mine") / folder_name(point), ())
    assert run.config.name == folder_name(point)
