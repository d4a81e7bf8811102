"""What a run leaves that must depend neither on ranks nor on stops, and what of it contradicts itself."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fl_ddp.check import runs
from fl_ddp.check.runs import course, unlike
from fl_ddp.results.metrics import is_of_time

Row = Mapping[str, str]
Numbers = Mapping[str, Any]

TABLES = ("metrics.csv", *runs.TABLES, "enrolment.csv")
OF_THE_RUN = ("folder", "seconds", "environment", "padded_lanes")
"""What summary.json says of where, when and by how many ranks a run was made."""
MAY_BE_NAN = ("accuracy/", "forgetting", "auc", "f1", "r2", "measure/", "method/")
"""How columns begin of what has no number where a class, or a task, has no samples."""
ERROR = 1e-12


def rows(file: Path) -> list[dict[str, str]]:
    """The rows of a table; none where a run has no such table."""
    if not file.exists():
        return []
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def differences(ours: Path, theirs: Path) -> list[str]:
    """What is not the same in two runs' folders, of their tables, their summaries and the last state."""
    found = []
    for name in TABLES:
        one, other = (_without_times(rows(folder / name)) for folder in (ours, theirs))
        gap = next((f"{a} or {b}" for a, b in zip(one, other, strict=False) if a != b), "")
        if gap or len(one) != len(other):
            found.append(f"{name}: {gap or f'{len(one)} or {len(other)} rows'}")
    summaries = [json.loads((folder / "summary.json").read_text()) for folder in (ours, theirs)]
    for key in dict.fromkeys((*summaries[0], *summaries[1])):
        texts = [json.dumps(summary.get(key, "missing")) for summary in summaries]
        if key not in OF_THE_RUN and texts[0] != texts[1]:
            found.append(f"summary.json: {key} is {texts[0][:200]} or {texts[1][:200]}")
    if gap := unlike(course(ours)[-1:], course(theirs)[-1:]):
        found.append(f"checkpoint: {gap}")
    return found


def contradictions(folder: Path) -> list[str]:
    """What the files of a run say of each other that cannot be."""
    metrics, summary = rows(folder / "metrics.csv"), json.loads((folder / "summary.json").read_text())
    return [
        *_of_rounds(folder, metrics),
        *_of_numbers(folder),
        *_of_summary(metrics, summary),
        *_of_tasks(folder, summary),
    ]


def _of_rounds(folder: Path, metrics: Sequence[Row]) -> Iterator[str]:
    first = int(metrics[0]["round"])
    if [int(row["round"]) for row in metrics] != list(range(first, first + len(metrics))):
        yield "metrics.csv: a round is missing, or there twice"
    cohorts, clients = rows(folder / "cohorts.csv"), rows(folder / "clients.csv")
    for row in metrics:
        cohort = {each["client"] for each in cohorts if each["round"] == row["round"]}
        if int(row["cohort"]) != len(cohort):
            yield f"round {row['round']}: metrics.csv has a cohort of {row['cohort']}, cohorts.csv of {len(cohort)}"
        if not (told := row.get("personalised_accuracy")):
            continue
        tested = [each for each in clients if each["round"] == row["round"] and each["own_accuracy"]]
        own = [float(each["own_accuracy"]) for each in tested if each["client"] in cohort]
        if own and abs(np.mean(own) - float(told)) > ERROR:
            yield f"round {row['round']}: personalised_accuracy is {told}, by clients.csv {np.mean(own)}"


def _of_numbers(folder: Path) -> Iterator[str]:
    for name in TABLES:
        for row in rows(folder / name):
            for column, text in row.items():
                value = _number(text)
                where = f"{name}: {column} is {text}"
                if value is None or is_of_time(column):
                    continue
                may_be_nan = name == "forgetting.csv" or column.startswith(MAY_BE_NAN)
                if math.isinf(value) or text == "-0.0" or (math.isnan(value) and not may_be_nan):
                    yield where
                if "accuracy" in column and not -ERROR <= value <= 1 + ERROR and not math.isnan(value):
                    yield where


def _of_summary(metrics: Sequence[Row], summary: Numbers) -> Iterator[str]:
    for way in ("up", "down"):
        total = sum(int(row[f"traffic_{way}_bytes"]) for row in metrics)
        if total != summary[f"traffic_{way}_bytes"]:
            yield f"summary.json: traffic_{way}_bytes is {summary[f'traffic_{way}_bytes']}, the rounds' sum {total}"
    for key in ("accuracy", "loss", "personalised_accuracy", "initial_accuracy", "forgetting"):
        known = [row[key] for row in metrics if row.get(key)]
        if known and summary.get(key) is not None and float(known[-1]) != summary[key]:
            yield f"summary.json: {key} is {summary[key]}, the last of metrics.csv {known[-1]}"
    if summary.get("confusion"):
        confusion = np.array(summary["confusion"])
        if abs(confusion.trace() / confusion.sum() - summary["accuracy"]) > ERROR:
            yield f"summary.json: accuracy is {summary['accuracy']}, by confusion {confusion.trace() / confusion.sum()}"
        for row, (name, told) in zip(confusion, summary["class_accuracy"].items(), strict=True):
            index = list(summary["class_accuracy"]).index(name)
            if told is not None and abs(row[index] / row.sum() - told) > ERROR:
                yield f"summary.json: class_accuracy of {name} is {told}, by confusion {row[index] / row.sum()}"


def _of_tasks(folder: Path, summary: Numbers) -> Iterator[str]:
    tested = rows(folder / "tasks.csv")
    if not tested:
        return
    matrix: dict[int, dict[int, float]] = {}
    for row in tested:
        matrix.setdefault(int(row["task_trained"]), {})[int(row["task_tested"])] = float(row["accuracy"])
    if max(matrix) < len(matrix[0]):
        return  # the run ends within its tasks
    last = matrix[max(matrix)]
    known = [value for value in last.values() if not math.isnan(value)]
    if abs(np.mean(known) - summary["average_accuracy"]) > ERROR:
        yield f"summary.json: average_accuracy is {summary['average_accuracy']}, by tasks.csv {np.mean(known)}"
    before = [each for each in list(last)[:-1] if not math.isnan(last[each])]
    lost = [max(matrix[after][each] for after in range(each, max(matrix))) - last[each] for each in before]
    if lost and abs(np.mean(lost) - summary["average_forgetting"]) > ERROR:
        yield f"summary.json: average_forgetting is {summary['average_forgetting']}, by tasks.csv {np.mean(lost)}"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except (TypeError, ValueError):
        return None


def _without_times(table: Sequence[Row]) -> list[Row]:
    return [{key: value for key, value in row.items() if not is_of_time(key)} for row in table]
