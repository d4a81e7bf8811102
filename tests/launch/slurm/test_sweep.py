"""Sweeps and tables on a real Slurm: one job array each."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from launching import SMALL, numbers, options, own_model, rounds_done, simulated
from slurm_cluster import command, dev_cluster, ended, until
from tiny_table import BASE, TABLE

from launch import reproduce, sweep

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(600)]

SLURM = ["--executor", "slurm", "--time", "60"]
SWEEP = [*options({key: value for key, value in SMALL.items() if key != "name"}), "--name", "mine", *SLURM]
HELD = [*options({key: value for key, value in own_model("Held").items() if key != "name"}), "--name", "mine", *SLURM]
FOLDER = Path("sweeps/mine")

Calling = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module", autouse=True)
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with dev_cluster(tmp_path_factory.mktemp("slurm")):
        yield


@pytest.fixture
def call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Calling:
    """A command, in a working directory of its own: exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)

    def run(main: Callable[[list[str]], int], *words: str) -> tuple[int, str, str]:
        code = main([*words])
        return (code, *capfd.readouterr())

    return run


def jobs() -> dict[str, str]:
    """The newest job of each point, by folder."""
    files = FOLDER.glob("*.job.json")
    return {file.name.removesuffix(".job.json"): str(json.loads(file.read_text())["job"]) for file in files}


def test_a_sweep_is_one_array_and_its_failed_points_can_be_resubmitted_alone(call: Calling) -> None:
    grid = [*SWEEP, "--grid", "lr=0.1,1e6", "--grid", "seed=0..1"]
    code, out, err = call(sweep.main, *grid, "--parallel", "2", "--wait")
    bad = [f"lr=1e6,seed={seed}" for seed in (0, 1)]
    assert code == 1 and "submitted 4 runs as job" in out and "[4/4]" in out
    assert err.count("a smaller --lr usually helps") == 2 and "--retry runs these 2 again" in err
    first = jobs()
    assert len({job.partition("_")[0] for job in first.values()}) == 1
    alone = simulated({**SMALL, "seed": 1}, Path("alone"))
    assert numbers(FOLDER / "lr=0.1,seed=1") == numbers(alone)

    code, out, err = call(sweep.main, *grid)
    assert code == 1 and "2 are finished, 0 to run" in out and err.count("a smaller --lr usually helps") == 2
    assert jobs() == first

    code, out, err = call(sweep.main, "--name", "mine", "--retry", *SLURM)
    assert (code, err) == (0, "") and "submitted 2 runs as job" in out
    second = jobs()
    assert {name for name in first if second[name] != first[name]} == set(bad)
    assert [ended(second[name]) for name in bad] == ["FAILED", "FAILED"]
    code, out, err = call(sweep.main, *grid)  # nobody waited: the logs say how it ended
    assert code == 1 and "0 to run" in out and err.count("a smaller --lr usually helps") == 2


def test_points_in_the_queue_are_not_submitted_again_and_cancelled_ones_go_on(call: Calling) -> None:
    longer = [*HELD, "--grid", "seed=0..1"]
    Path("hold").write_text("2")
    code, out, err = call(sweep.main, *longer)
    assert (code, err) == (0, "") and "submitted 2 runs" in out
    before = jobs()
    code, out, err = call(sweep.main, *longer)
    assert (code, err) == (0, "") and "2 runs are in Slurm's queue already" in out and "submitted" not in out
    assert jobs() == before
    until(lambda: rounds_done(FOLDER / "seed=0") == 2, "two rounds")
    command("scancel", before["seed=0"].partition("_")[0])
    Path("hold").unlink()
    assert {ended(job) for job in before.values()} == {"CANCELLED"}
    code, out, err = call(sweep.main, *longer, "--wait")
    assert (code, err) == (0, "")
    assert numbers(FOLDER / "seed=0") == numbers(simulated(SMALL, Path("alone")))


def test_a_mistake_on_one_of_two_nodes_is_a_failure_at_once_and_is_not_tried_again(call: Calling) -> None:
    settings = {key: value for key, value in own_model("FailsOnRankOne").items() if key != "name"}
    words = [*options(settings), "--name", "mine", *SLURM, "--nodes", "2", "--grid", "seed=0"]
    Path("fail").write_text("1")
    assert call(sweep.main, *words)[0] == 0
    (job,) = jobs().values()
    assert ended(job) == "FAILED"
    code, out, err = call(sweep.main, *words)  # nobody waited: the log says how it ended
    assert code == 1 and "0 to run" in out
    assert "failed: seed=0: own_models.py:" in err and ": ValueError: a mistake of the user's model (" in err
    code, out, err = call(sweep.main, *words, "--retry", "--wait")
    assert code == 1 and "[1/1] seed=0 failed: " in out and "stopped" not in err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--slurm_partition=mian"], "--slurm_partition: Slurm has no partition mian; did you mean main?"),
        (["--cpus_per_task=100"], "sbatch refuses: "),
    ],
)
def test_what_slurm_refuses_leaves_nothing(call: Calling, words: list[str], message: str) -> None:
    code, _, err = call(sweep.main, *SWEEP, "--grid", "seed=0..1", *words)
    assert code == 2 and err.count("\n") == 1 and err.startswith(f"sweep: error: {message}")
    assert not FOLDER.exists()


def test_the_rows_of_a_table_are_one_array(call: Calling, tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    (tmp_path / "tiny" / "base.yaml").write_text(BASE)
    (tmp_path / "tiny" / "table1.table.yaml").write_text(TABLE)
    table = ["tiny/table1.table.yaml", "--seeds", "0", *SLURM]
    code, out, err = call(reproduce.main, *table, "--wait")
    assert code == 1 and "submitted 3 runs as job" in out
    assert err.startswith("failed: digits/broken seed 0: ") and "a smaller --lr usually helps" in err
    assert "ordering digits: fedavg > slow [end]: holds" in out
    code, out, _ = call(reproduce.main, *table, "--row", "fedavg", "--row", "slow")
    assert code == 0 and "submitted" not in out
