"""Functions of the user's own that measure the global model wherever it is tested."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from functools import wraps
from pathlib import Path

import pytest
import torch
from launching import SMALL, launched, numbers, one_thread, options, resumed, simulated
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import fl_ddp
from fl_ddp.api import ConfigError, GlobalModel
from fl_ddp.config.command_line import from_file

FUNCTIONS = """
import torch

def right(run):
    shares = []
    for (x, y), allowed in zip(run.tests, run.allowed):
        logits = run.model(x)[1]
        logits = logits if allowed is None else logits.masked_fill(~allowed, -1e9)
        shares.append((logits.argmax(1) == y).double().sum())
    return sum(shares) / sum(len(y) for _, y in run.tests)

def drawn(run):
    return torch.rand(1)

def when(run):
    return 100 * run.round + 10 * run.task + len(run.tests)

def spoils(run):
    torch.manual_seed(7)
    for tensor in (*run.weights.values(), *run.model.parameters(), *(t for test in run.tests for t in test)):
        tensor.data.zero_()
    run.model.register_forward_hook(lambda *given: 1 / 0)
    return torch.is_grad_enabled() + 0

def two(run): return torch.zeros(2)
def large(run): return 10**400
def nothing(run): pass
def fails(run): return 1 / (run.round - 2)
def of_two(model, x): return 0.0
"""


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """One thread."""
    with one_thread():
        yield


@pytest.fixture
def mine(tmp_path: Path) -> str:
    """A file of functions."""
    file = tmp_path / f"measuring_{tmp_path.name}.py"
    file.write_text(FUNCTIONS)
    return str(file)


def named(file: str, *names: str) -> list[str]:
    """Some of its functions."""
    return [f"{file}:{name}" for name in names]


def column(run: Path, name: str) -> list[float | None]:
    """What metrics.csv has, round by round."""
    with (run / "metrics.csv").open(newline="") as file:
        return [float(row[name]) if row[name] else None for row in csv.DictReader(file)]


def test_they_see_the_model_and_the_test_set_that_the_accuracy_is_of(mine: str, tmp_path: Path) -> None:
    run = simulated({**SMALL, "measures": named(mine, "right", "when"), "eval_every": 2}, tmp_path)
    assert column(run, "measure/right") == column(run, "accuracy")
    assert column(run, "measure/when") == [None, 211.0, 311.0]
    summary = json.loads((run / "summary.json").read_text())
    assert summary["measure/right"] == summary["accuracy"] and summary["measure/when"] == 311
    assert mine in summary["code"]
    curves = EventAccumulator(str(run)).Reload()
    assert [each.value for each in curves.Scalars("measure/when")] == [211, 311]


def test_tasks_are_those_so_far_with_the_labels_that_count(mine: str, tmp_path: Path) -> None:
    stream = {"stream": "ClassGroups", "stream.tasks": 2, "stream.scenario": "task", "stream.task_rounds": 2}
    asked = {**SMALL, **stream, "partition": "IID", "rounds": 4, "measures": named(mine, "right", "when")}
    run = simulated(asked, tmp_path)
    assert column(run, "measure/right") == pytest.approx(column(run, "accuracy"), abs=1e-12)
    assert column(run, "measure/when") == [11, 111, 211, 322, 422]


def test_nothing_comes_of_what_they_do_to_what_they_see(mine: str, tmp_path: Path) -> None:
    asked = {**SMALL, "stream": "Rotated", "stream.task_rounds": 2, "stream.tasks": 2}
    with_them = {**asked, "measures": named(mine, "right", "spoils", "drawn")}
    run, without = simulated(with_them, tmp_path / "a"), simulated(asked, tmp_path / "b")
    assert numbers(run).parameters == numbers(without).parameters
    assert all(column(run, name) == column(without, name) for name in ("accuracy", "loss", "train_loss"))
    assert column(run, "measure/right") == pytest.approx(column(run, "accuracy"), abs=1e-12)
    assert column(run, "measure/spoils") == [0, 0, 0, 0], "without gradients"


def test_what_they_draw_is_of_the_round_and_the_seed(mine: str, tmp_path: Path) -> None:
    asked = {**SMALL, "measures": f"{mine}:drawn", "rounds": 4}
    whole, other = simulated(asked, tmp_path / "a"), simulated({**asked, "seed": 1}, tmp_path / "b")
    part = simulated({**asked, "rounds": 2}, tmp_path / "c")
    resumed(part, rounds=4)
    assert numbers(part) == numbers(whole)
    beside = simulated({**asked, "measures": named(mine, "right", "drawn")}, tmp_path / "d")
    assert column(beside, "measure/drawn") == column(whole, "measure/drawn")
    assert len({*column(whole, "measure/drawn"), *column(other, "measure/drawn")}) == 8


@pytest.mark.slow
def test_ranks_have_the_same_numbers(mine: str, tmp_path: Path) -> None:
    asked = {**SMALL, "measures": named(mine, "right", "drawn")}
    alone = simulated(asked, tmp_path / "a")
    with launched(["-m", "fl_ddp.main", *options({**asked, "out": tmp_path / "b"})], 2, tmp_path) as launch:
        assert launch.ended().code == 0
    assert numbers(tmp_path / "b" / "run") == numbers(alone)


def test_the_example_of_the_documents_is_one(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs/runs.md").read_text()
    block = next(each for each in text.split("```python\n")[1:] if "def overconfidence" in each).partition("```")[0]
    (tmp_path / "of_documents.py").write_text(block)
    run = simulated({**SMALL, "measures": f"{tmp_path / 'of_documents.py'}:overconfidence"}, tmp_path)
    found, loaded = column(run, "measure/overconfidence"), fl_ddp.load(run)
    (x, y), *_ = loaded.tests
    with torch.no_grad():
        chances = loaded.model(x)[1].softmax(1)
    right = (chances.argmax(1) == y).float()
    assert found[-1] == pytest.approx(float(chances.max(1).values.mean() - right.mean()), abs=1e-6)


def gap(run: GlobalModel) -> float:
    """Of a notebook's: how far the mean of the largest probability is from the accuracy."""
    (x, y), *_ = run.tests
    found, labels = run.model(x)[1].softmax(1).max(1)
    return float(found.mean() - (labels == y).float().mean())


halved = wraps(gap)(lambda run: gap(run) / 2)


def test_a_notebook_gives_functions_and_asks_them_again_of_the_run(tmp_path: Path) -> None:
    run = fl_ddp.simulate(SMALL, measures=gap, out=str(tmp_path))
    assert column(tmp_path / "run", "measure/gap")[-1] == run["measure/gap"]
    with torch.no_grad():
        assert gap(run) == run["measure/gap"]  # type: ignore[arg-type]
    again = fl_ddp.simulate(SMALL, measures=[gap], out=str(tmp_path), name="again")
    assert again["measure/gap"] == run["measure/gap"]


def test_a_run_is_read_where_their_file_is_gone(mine: str, tmp_path: Path) -> None:
    run = simulated({**SMALL, "measures": f"{mine}:when"}, tmp_path)
    config = run / "config.yaml"
    config.write_text(config.read_text().replace(Path(mine).stem, "gone"))
    assert fl_ddp.load(run).model.training is False


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("rihgt", "has no function rihgt; it has right, "),
        ("of_two", r"of_two\(model, x\) cannot be called so; accepted: a function of one thing"),
        ("torch", "torch is module; accepted: a function that is made with def"),
        ("large", "large gives int too large to convert to float; accepted: a number that a float holds"),
        ("two", r"two gives Tensor \[2\]; accepted: a number"),
        ("nothing", "nothing gives NoneType; accepted: a number"),
    ],
)
def test_what_is_none_is_refused(name: str, why: str, mine: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"--measures: .*{why}"):
        simulated({**SMALL, "measures": f"{mine}:{name}"}, tmp_path)


def test_a_module_may_be_named_with_a_colon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a class may; a run that goes on, and a sweep, find it under one name."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "measured_here.py").write_text("def when(run): return run.round + 0.5\n")
    simulated({**SMALL, "measures": "measured_here:when"}, tmp_path)
    run = tmp_path / "run"
    assert column(run, "measure/when") == [number + 0.5 for number in range(1, 1 + len(column(run, "round")))]
    assert from_file(run / "config.yaml").measures == ("measured_here.when",)


def test_names_and_places_are_refused_before_a_run_begins(mine: str, tmp_path: Path) -> None:
    (tmp_path / "other.py").write_text("def right(run): return 0.0\n")
    two = [*named(mine, "right"), *named(str(tmp_path / "other.py"), "right")]
    for given, why in (
        (two, "right is the name of two functions"),
        ("accuracy", "accuracy is no import path; accepted: one such as my_file.py:my_function"),
        ("nowhere.py:f", "nowhere.py: no such file"),
        (mine, ".*/measuring_.* is no import path"),
    ):
        with pytest.raises(ConfigError, match=f"--measures: {why}"):
            simulated({**SMALL, "measures": given}, tmp_path)
    for wrong, why in (
        (lambda run: 0.0, "is a lambda"),
        ([gap, len], "builtin_function_or_method is no function; accepted: functions that are made with def"),
        (halved, "test_measures.gap is another function by now; accepted: one under its own name"),
    ):
        with pytest.raises(ConfigError, match=f"measures: .*{why}"):
            fl_ddp.simulate(SMALL, measures=wrong, out=str(tmp_path))
    assert not list(tmp_path.glob("run*"))


def test_one_that_fails_ends_the_run_which_goes_on_once_it_is_mended(
    mine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ZeroDivisionError):
        simulated({**SMALL, "measures": f"{mine}:fails"}, tmp_path)
    run = tmp_path / "run"
    assert "ZeroDivisionError" in (run / "failure.txt").read_text()
    assert column(run, "measure/fails") == [-1]
    file = Path(mine)
    # of another length, by which bytecode is told
    file.write_text(FUNCTIONS.replace("run.round - 2", "(run.round + 1)"))
    monkeypatch.delitem(sys.modules, file.stem)
    resumed(run)
    assert column(run, "measure/fails") == [-1, 1 / 3, 1 / 4] and not (run / "failure.txt").exists()
