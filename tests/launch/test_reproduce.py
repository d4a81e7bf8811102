"""launch.reproduce: a paper's table run, read and judged."""

from __future__ import annotations

import json
import math
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest
from launching import checkpoints, launched
from tiny_table import write_table
from written_runs import Written

from launch import results
from launch.reproduce import main
from launch.run.stored import read_run


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of three rows, in the working directory."""
    monkeypatch.chdir(tmp_path)
    return write_table(tmp_path)


def reproduce(capfd: pytest.CaptureFixture[str], words: Sequence[str]) -> tuple[int, str, str]:
    code = main(words)
    out, err = capfd.readouterr()
    return code, out, err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "PAPER/TABLE: is missing; accepted: one that --list shows"),
        (["importance/tabel3"], "importance/tabel3: there is no such table; did you mean importance/table3?"),
        (["nowhere.table.yaml"], "nowhere.table.yaml: cannot be read"),
        (["TABLE", "--row", "fedavgg"], "has no row or group fedavgg; did you mean fedavg?"),
        (["TABLE", "--seeds", "2..0"], "--seeds: 2..0 are no seeds; accepted: 0..2, or 0,3,5"),
        (["TABLE", "--seeds", "a"], "--seeds: a are no seeds"),
        (["TABLE", "--seeds"], "--seeds: needs a value"),
        (["TABLE", "--ranks", "0"], "--ranks: 0 is impossible"),
        (["TABLE", "--seed", "1"], "--seed: is not the user's to give here; give --seeds"),
        (["TABLE", "--smal"], "--smal: unknown option; did you mean --small?"),
        (["TABLE", "--small=maybe"], "--small: maybe is unknown; accepted: true or false"),
        (["TABLE", "other"], "other: belongs to no option"),
        (["TABLE", "--mu", "1"], "--mu: unknown option; did you mean --method.mu?"),
        (["TABLE", "--lr", "fast"], "--lr: fast has the wrong type; accepted: a number"),
    ],
)
def test_bad_input_is_one_line_and_runs_nothing(
    table: str, capfd: pytest.CaptureFixture[str], words: Sequence[str], message: str
) -> None:
    code, out, err = reproduce(capfd, [table if word == "TABLE" else word for word in words])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("reproduce: error: ") and message in err
    assert not Path("reproduce").exists()


def test_missing_data_are_said_once_and_nothing_is_started(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    run = fedavg(0, [0.1, 0.2, 0.5], data="MNIST")
    before = sorted(Path().rglob("*"))
    code, out, err = reproduce(capfd, [table, "--data", "MNIST", "--row", "fedavg", "--row", "slow"])
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith("reproduce: error: --data MNIST: looked for train-images-idx3-ubyte")
    assert sorted(Path().rglob("*")) == before
    words = [table, "--data", "MNIST", "--row", "fedavg", "--seeds", "0"]
    assert reproduce(capfd, words)[0] == 0 and run.is_dir()  # it is finished, and needs none


def test_help_tells_of_every_option(capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = reproduce(capfd, ["--help"])
    assert code == 0
    for option in ("row", "small", "seeds", "ranks", "out", "dry_run", "report", "list"):
        assert f"--{option} " in out


def test_dry_run_prints_the_commands(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    code, out, _ = reproduce(
        capfd, [table, "--row", "slow", "--small", "--dry_run", "--ranks", "2", "--eval_every", "2"]
    )
    assert code == 0 and out.splitlines() == [
        "python -m torch.distributed.run --standalone --nproc_per_node=2 -m fl_ddp.main --config=tiny/base.yaml "
        "--lr=0.0001 --rounds=1 --clients=3 --seed=0 --eval_every=2 "
        "--out=reproduce/tiny/table1-small --name=digits-slow-seed0"
    ]
    assert not Path("reproduce").exists()


@pytest.mark.slow
def test_a_table_is_run_skipped_resumed_and_judged(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    folder = Path("reproduce/tiny/table1")
    died_before_it_began = folder / "digits-fedavg-seed0" / ".lock"
    died_before_it_began.parent.mkdir(parents=True)
    died_before_it_began.touch()
    code, out, err = reproduce(capfd, [table, "--row", "fedavg", "--row", "slow", "--seeds", "0..1", "--rounds", "2"])
    assert (code, err) == (0, "")
    assert [f"digits/{row} seed {seed} finished" in out for row in ("fedavg", "slow") for seed in (0, 1)] == [True] * 4
    assert "not decided (no number of broken)" in out
    parameters = [json.loads(file.read_text())["parameters_sha256"] for file in sorted(folder.glob("*/summary.json"))]

    # a second call with the table's own three rounds: what has two goes on, what is finished is skipped
    code, out, err = reproduce(capfd, [table, "--row", "slow", "--seeds", "0"])
    assert code == 0 and "digits/slow seed 0 finished" in out
    assert "going on after round 2" in (folder / "digits-slow-seed0.log").read_text()
    before = {file: file.stat().st_mtime_ns for file in folder.glob("digits-slow-seed0/*")}
    code, out, err = reproduce(capfd, [table, "--row", "slow", "--row", "broken", "--seeds", "0"])
    assert code == 1 and "digits/slow seed 0 was finished" in out
    assert {file: file.stat().st_mtime_ns for file in folder.glob("digits-slow-seed0/*")} == before
    assert err.startswith("failed: digits/broken seed 0: ") and "a smaller --lr usually helps" in err

    results = json.loads((folder / "results.json").read_text())
    rows = {row["row"]: row["columns"] for row in results["rows"]}
    slow = read_run(folder / "digits-slow-seed0")
    assert slow is not None and slow.ended and slow.rounds == 3
    accuracies = [value for _, value in slow.curves["accuracy"]]
    measured = rows["slow"]["early"]["metrics"]["running_mean@2"]
    assert measured["mean"] == pytest.approx(50 * sum(accuracies[:2])) and measured["spread"] is None
    assert set(rows) == {"fedavg", "slow"}
    (batch,) = results["runs"]
    assert batch["rows"] == {"digits/fedavg": [0], "digits/slow": [0]} and batch["environment"]["torch"]
    assert results["command"].startswith("python -m launch.reproduce ") and results["seeds"] == [0]

    # both seeds again, of which the first one's mean and difference are checked by hand
    code, out, err = reproduce(capfd, [table, "--seeds", "0..1", "--rounds", "2", "--report", "--row", "fedavg"])
    assert code == 0
    results = json.loads((folder / "results.json").read_text())
    cell = {row["row"]: row["columns"] for row in results["rows"]}["fedavg"]["end"]
    first, second = cell["metrics"]["final"]["by_seed"].values()
    assert cell["metrics"]["final"]["mean"] == pytest.approx((first + second) / 2)
    assert cell["metrics"]["final"]["spread"] == pytest.approx(abs(first - second) / math.sqrt(2))
    assert cell["difference"] == pytest.approx((first + second) / 2 - 50)
    assert [each["verdict"] for each in results["orderings"]] == ["holds", "does not hold", "not decided"]
    assert "| digits/fedavg | paper | end | 50.00 |" in (folder / "table.md").read_text()
    assert len(set(parameters)) == 4

    # a run that went on longer than it is asked for is read at that round
    main([table, "--row", "slow", "--seeds", "0", "--rounds", "2", "--report"])
    cell = json.loads((folder / "results.json").read_text())["rows"][1]["columns"]["end"]
    assert cell["metrics"]["final"]["by_seed"]["0"] == pytest.approx(100 * accuracies[1])

    # another run than the row's is never counted as the row's
    capfd.readouterr()
    code, out, err = reproduce(capfd, [table, "--row", "slow", "--seeds", "0", "--lr", "0.5", "--report"])
    assert code == 1 and "digits-slow-seed0: holds another run (lr is 0.0001, not 0.5); choose another" in err


@pytest.mark.slow
def test_ctrl_c_saves_the_run_and_the_same_command_goes_on(table: str, tmp_path: Path) -> None:
    run = tmp_path / "reproduce" / "tiny" / "table1" / "digits-slow-seed0"
    words = ["-m", "launch.reproduce", table, "--row", "slow", "--seeds", "0..1", "--checkpoint_every", "1"]
    with launched([*words, "--rounds", "100000"], 1, tmp_path) as launch:
        launch.until(lambda: checkpoints(run))
        launch.launcher.send_signal(signal.SIGINT)
        ended = launch.ended()
    assert ended.code == 1 and "the same command goes on" in ended.err
    assert "digits/slow seed 1: not started" in ended.err
    stopped = read_run(run)
    assert stopped is not None and not stopped.ended and checkpoints(run)[-1] == f"round_{stopped.rounds:06}"


def fedavg(seed: int, curve: Sequence[float], **settings: object) -> Path:
    """A run of the row fedavg."""
    settings = {"config": "tiny/base.yaml", "seed": seed, **settings}
    return Written(settings, curve, rounds=3).at(Path(f"reproduce/tiny/table1/digits-fedavg-seed{seed}"))


def test_the_table_has_finished_runs_of_all_seeds_whichever_were_asked_for(
    table: str, capfd: pytest.CaptureFixture[str]
) -> None:
    for seed, end in ((0, 0.5), (1, 0.6), (7, 0.7)):
        fedavg(seed, [0.1, 0.2, end])
    fedavg(2, [0.1, 0.2])  # not at its end: counts where it is asked for alone
    fedavg(4, [0.1, 0.2, 0.9], lr=0.5)  # of another command
    file = Path("reproduce/tiny/table1/results.json")
    for words, seeds in (
        (["--seeds", "1"], ["0", "1", "7"]),
        (["--seeds", "0", "--row", "slow"], ["0", "1", "7"]),
        ([], ["0", "1", "2", "7"]),
    ):
        code, _, err = reproduce(capfd, [table, "--report", *words])
        assert (code, err) == (0, "")
        (row,) = json.loads(file.read_text())["rows"]
        assert list(row["columns"]["early"]["metrics"]["running_mean@2"]["by_seed"]) == seeds
        assert list(row["columns"]["end"]["metrics"]["final"]["by_seed"]) == [seed for seed in seeds if seed != "2"]
    code, _, err = reproduce(capfd, [table, "--report", "--seeds", "4"])
    assert code == 1 and "digits-fedavg-seed4: holds another run (lr is 0.5, not " in err


def test_a_report_on_no_run_overwrites_nothing(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    file = Path("reproduce/tiny/table1/results.json")
    code, out, err = reproduce(capfd, [table, "--report"])
    assert (code, out) == (2, "") and "reproduce/tiny/table1: holds no run of the table yet" in err
    assert not Path("reproduce").exists()
    run = fedavg(0, [0.1, 0.2, 0.5])
    reproduce(capfd, [table, "--report"])
    before = file.read_bytes()
    shutil.rmtree(run)
    assert reproduce(capfd, [table, "--report"])[0] == 2
    fedavg(0, [0.1, 0.2, 0.5], lr=0.5)
    code, out, err = reproduce(capfd, [table, "--report"])
    assert code == 1 and "without a run: digits/fedavg" in out and "holds another run" in err
    assert file.read_bytes() == before


def test_plots_of_its_runs_leave_the_table_as_it_is(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    fedavg(0, [0.1, 0.2, 0.5])
    assert reproduce(capfd, [table, "--report"])[0] == 0
    before = {file: file.read_bytes() for file in Path("reproduce/tiny/table1").glob("*.*")}
    assert {file.name for file in before} == {"table.md", "results.json"}
    assert results.main(["reproduce/tiny/table1"]) == 0
    assert {file: file.read_bytes() for file in before} == before


def test_a_folder_that_holds_no_run_is_left_alone(table: str, capfd: pytest.CaptureFixture[str]) -> None:
    precious = Path("reproduce/tiny/table1-small/digits-slow-seed0/thesis.tex")
    precious.parent.mkdir(parents=True)
    precious.touch()
    code, out, err = reproduce(capfd, [table, "--row", "slow", "--small"])
    assert code == 1 and "scaled-down twin" in out and "is not the folder of a run" in err
    assert precious.exists()
