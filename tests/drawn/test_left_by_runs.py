"""What the comparison of drawn runs sees: each number of a run's files that is wrong, and each that differs."""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from launching import SMALL, simulated
from left_by_runs import TABLES, contradictions, differences, rows
from safetensors.torch import load_file, save_file

SETTINGS: Mapping[str, object] = {
    **SMALL, "method": "Scaffold", "local_test": 0.3, "forgetting_every": 1, "keep_checkpoints": 9,
    "stream": "ClassGroups", "stream.tasks": 3, "stream.task_rounds": 1, "stream.empty": "skip", "partition": "IID",
}  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulated(SETTINGS, tmp_path_factory.mktemp("left"))


@pytest.fixture
def other(run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(run, tmp_path / "other"))


def written(file: Path, table: Sequence[Mapping[str, str]]) -> None:
    with file.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


def changed(file: Path, row: int, column: str, change: Callable[[str], object]) -> None:
    """Change a number of a table."""
    table = rows(file)
    assert table[row][column]
    table[row][column] = str(change(table[row][column]))
    written(file, table)


def test_a_run_does_not_contradict_itself_nor_differ_from_itself(run: Path) -> None:
    assert all(rows(run / name) for name in TABLES)
    assert contradictions(run) == differences(run, run) == []


@pytest.mark.parametrize(
    ("name", "row", "column", "value", "said"),
    [
        ("metrics.csv", 1, "round", 7, "a round is missing"),
        ("metrics.csv", 2, "cohort", 1, "a cohort of 1"),
        ("metrics.csv", 2, "personalised_accuracy", 0.123, "personalised_accuracy is 0.123"),
        ("metrics.csv", 2, "traffic_up_bytes", 5, "traffic_up_bytes is"),
        ("metrics.csv", 2, "traffic_down_bytes", 5, "traffic_down_bytes is"),
        ("metrics.csv", 3, "accuracy", 0.123, "accuracy is"),
        ("metrics.csv", 3, "loss", "inf", "loss is inf"),
        ("metrics.csv", 2, "train_loss", "nan", "train_loss is nan"),
        ("metrics.csv", 2, "train_loss", "-0.0", "train_loss is -0.0"),
        ("clients.csv", 0, "received_accuracy", 1.25, "received_accuracy is 1.25"),
        ("tasks.csv", -1, "accuracy", 0.123, "average_accuracy is"),
        ("tasks.csv", 3, "accuracy", 1.0, "average_forgetting is"),
    ],
)
def test_a_wrong_number_of_a_table_is_told(
    other: Path, name: str, row: int, column: str, value: object, said: str
) -> None:
    changed(other / name, row, column, lambda _: value)
    assert any(said in line for line in contradictions(other))


def summarised(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    file = folder / "summary.json"
    summary = json.loads(file.read_text())
    change(summary)
    file.write_text(json.dumps(summary))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda summary: summary.update(accuracy=0.123), "accuracy is 0.123, by confusion"),
        (lambda summary: summary["class_accuracy"].update({"3": 0.123}), "class_accuracy of 3 is 0.123"),
        (lambda summary: summary.update(average_accuracy=0.123), "average_accuracy is 0.123"),
        (lambda summary: summary.update(average_forgetting=0.123), "average_forgetting is 0.123"),
    ],
)
def test_a_wrong_number_of_the_summary_is_told(
    other: Path, change: Callable[[dict[str, Any]], object], said: str
) -> None:
    summarised(other, change)
    assert any(said in line for line in contradictions(other))


def test_times_and_places_are_no_difference(run: Path, other: Path) -> None:
    changed(other / "metrics.csv", 1, "time_training", lambda text: float(text) + 1)
    summarised(other, lambda summary: summary.update(folder="elsewhere", seconds={}))
    assert differences(run, other) == []


@pytest.mark.parametrize("name", TABLES)
def test_a_number_of_each_table_is_a_difference(run: Path, other: Path, name: str) -> None:
    last = rows(run / name)[-1]
    changed(
        other / name,
        -1,
        [key for key, text in last.items() if text and not key.startswith("time")][-1],
        lambda _: 0.125,
    )
    assert [line.partition(":")[0] for line in differences(run, other)] == [name]


def test_a_missing_row_is_a_difference(run: Path, other: Path) -> None:
    written(other / "tasks.csv", rows(run / "tasks.csv")[:-1])
    assert differences(run, other) == [
        f"tasks.csv: {len(rows(run / 'tasks.csv'))} or {len(rows(run / 'tasks.csv')) - 1} rows"
    ]


def test_a_key_of_the_summary_that_one_lacks_is_a_difference(run: Path, other: Path) -> None:
    summarised(other, lambda summary: summary.pop("perplexity"))
    assert [line[:25] for line in differences(run, other)] == ["summary.json: perplexity "]


@pytest.mark.parametrize("name", ["server.safetensors", "memory.0.safetensors"])
def test_a_bit_of_the_last_state_is_a_difference(run: Path, other: Path, name: str) -> None:
    file = other / "checkpoints" / "round_000003" / name
    tensors = load_file(file)
    key = next(key for key, tensor in tensors.items() if tensor.is_floating_point())
    tensors[key].view(-1)[0] += 1
    save_file(tensors, file)
    assert [line.partition(":")[0] for line in differences(run, other)] == ["checkpoint"]
