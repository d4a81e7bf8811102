"""Runs as they are read, also those of before an option."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from launching import SMALL, one_thread, simulated
from showing import Showing
from written_runs import Written

import fl_ddp
from fl_ddp.errors import ConfigError
from launch.compare.found_runs import find_runs
from launch.numbers.metric import parse_metric
from launch.numbers.read_off import read_off
from launch.run.stored import read_run


def test_a_run_of_before_other_samplings_is_one_of_the_uniform_one(tmp_path: Path) -> None:
    file = Written({}, [0.5]).at(tmp_path / "old") / "config.yaml"
    config = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({key: value for key, value in config.items() if key != "client_sampling"}))
    run = read_run(tmp_path / "old")
    assert run is not None and run.config["client_sampling"] == "uniform"


@pytest.mark.parametrize("every", [2, 5], ids=["tested before", "never tested"])
def test_the_model_that_a_callback_ends_a_run_with_between_two_tests_has_its_scores(tmp_path: Path, every: int) -> None:
    """Those of clients are of a round of their own, or of none."""
    settings = {**SMALL, "local_test": 0.3, "eval_every": every, "partition": "Shards"}
    with one_thread():
        given = {**settings, "rounds": 6, "out": str(tmp_path / "part")}
        fl_ddp.simulate(given, callbacks=[lambda record: record.round == 3])
    simulated({**settings, "rounds": 3}, tmp_path / "third")
    part, third = (read_run(tmp_path / name / "run") for name in ("part", "third"))
    assert part and third and part.ended
    of_clients = ("initial_accuracy", "personalised_accuracy")
    assert set(third.curves) - set(part.curves) == (set(of_clients) if every == 5 else set())
    for name, curve in third.curves.items():
        if name not in of_clients:
            assert part.curves[name] == curve, name
    assert all(part.curves[name][-1][0] == 2 for name in of_clients if name in part.curves)
    metric = parse_metric("final of accuracy/3")
    assert read_off(metric, part.curves["accuracy/3"], part.ended) is not None


def test_a_run_that_is_over_where_it_had_stopped_has_its_last_scores(tmp_path: Path) -> None:
    """Stopped between two tests, and asked for no more rounds."""
    with one_thread():
        given = {**SMALL, "rounds": 8, "eval_every": 4, "out": str(tmp_path), "checkpoint_every": 1}
        with pytest.raises(ZeroDivisionError):
            fl_ddp.simulate(given, callbacks=[lambda record: 1 / (record.round - 6)])
        over = fl_ddp.simulate(resume=str(tmp_path / "run"), rounds=6)
    run = read_run(tmp_path / "run")
    assert run and (run.rounds, run.wanted, run.stopped, run.ended) == (6, 6, False, True)
    assert run.curves["accuracy"][-1] == (6, over["accuracy"]) and run.curves["accuracy"][0][0] == 4


def test_a_run_as_after_a_round_took_as_long_as_until_then(tmp_path: Path) -> None:
    run = read_run(Written({}, [0.1, 0.2, 0.3]).at(tmp_path / "run"))
    assert run and run.seconds == 3 * 2.0 and run.after(2).seconds == 2 * 2.0


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        (lambda lines: [*lines[:2], *lines[3:]], "round 3 behind round 1"),
        (lambda lines: [*lines, lines[-1]], "round 4 behind round 4"),
        (lambda lines: [*lines[:2], lines[2] + lines[3], *lines[4:]], "line 3 has not as many cells as the first one"),
        (lambda lines: [*lines[:2], lines[2][:3], *lines[3:]], "line 3 has not as many cells as the first one"),
    ],
    ids=["missing", "twice", "together", "cut"],
)
def test_rounds_without_those_between_them_are_no_runs(
    tmp_path: Path, wrong: Callable[[list[str]], list[str]], why: str
) -> None:
    folder = Written({}, [0.1, 0.2, 0.3, 0.4]).at(tmp_path / "run")
    lines = (folder / "metrics.csv").read_text().splitlines()
    (folder / "metrics.csv").write_text("\n".join(wrong(lines)) + "\n")
    with pytest.raises(ConfigError, match=rf"metrics\.csv: is not what a run writes \({why}\)"):
        read_run(folder)


def test_points_of_a_sweep_that_are_links_are_read(show: Showing, tmp_path: Path) -> None:
    for seed in (0, 1):
        Written({"seed": seed}, [0.1]).at(tmp_path / "sweep" / f"seed={seed}")
    (tmp_path / "sweep" / "seed=1").rename(tmp_path / "elsewhere")
    (tmp_path / "sweep" / "seed=1").symlink_to(tmp_path / "elsewhere")
    points = [{"folder": f"seed={seed}", "options": {"seed": str(seed)}} for seed in (0, 1)]
    (tmp_path / "sweep" / "sweep.json").write_text(json.dumps({"base": [], "varied": ["seed"], "points": points}))
    assert [each.seed for each in find_runs([tmp_path / "sweep"]).runs] == [0, 1]
    assert show("sweep", "--long")[0] == 0
    rows = (tmp_path / "sweep" / "rounds.csv").read_text().splitlines()[1:]
    assert [row.split(",")[0] for row in rows] == ["seed=0", "seed=1"]


def test_a_damaged_list_of_points_hides_no_other_sweep_and_none_of_its_own_runs(show: Showing) -> None:
    for name in ("ok", "bad"):
        Written({"seed": 0, "lr": 0.1 if name == "ok" else 0.2}, [0.1]).at(Path(f"sweeps/{name}/seed=0"))
        Path(f"sweeps/{name}/sweep.json").write_text(
            "" if name == "bad" else '{"base": [], "varied": [], "points": []}'
        )
    code, out, _ = show("sweeps")
    assert code == 0 and "failed: bad: sweeps/bad/sweep.json: is not what a sweep writes" in out
    assert [line.split()[0] for line in out.splitlines() if " finished " in line] == ["0.1", "0.2"]
    Path("alone").mkdir()
    Path("alone/sweep.json").write_text("")
    code, _, err = show("alone")
    assert code == 2 and "alone/sweep.json: is not what a sweep writes" in err
