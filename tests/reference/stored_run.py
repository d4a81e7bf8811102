"""What a run of the program leaves, in the reference's terms."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from evaluation import Row
from local_training import State
from parameters import Parameters, alone
from round_loop import Round
from safetensors.torch import load_file
from torch import Tensor


def by_name(vector: Tensor, like: Parameters) -> Parameters:
    """A flat vector as the module's parameters, which it holds in the module's order; any other tensor as it is."""
    return like.shaped(vector.double()) if vector.shape == (like.count(),) else alone(vector.double())


def stored_rounds(folder: Path, like: Parameters) -> list[Round]:
    """All rounds of a run that kept all its checkpoints."""
    with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["round"] != "0"]  # of which there is no checkpoint
    tasks = _of_tasks(folder / "tasks.csv")
    return [
        _round(folder / "checkpoints" / f"round_{int(row['round']):06d}", _row(row) | tasks.get(row["round"], {}), like)
        for row in rows
    ]


def _of_tasks(file: Path) -> dict[str, Row]:
    """What tasks.csv says of each round; nothing where there is none."""
    found: dict[str, Row] = {}
    if file.exists():
        for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines()):
            found.setdefault(row["round"], {})[f"task/{row['task_tested']}"] = float(row["accuracy"])
    return found


def final_parameters(folder: Path) -> Parameters:
    """What model.safetensors holds."""
    return Parameters({name: own.double() for name, own in load_file(folder / "model.safetensors").items()})


def divided(file: Path) -> tuple[Sequence[Sequence[int]], Sequence[Sequence[int]], str]:
    """Each client's training samples, its own test samples, none where a partition.json has none, and of which set."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return content["clients"], content.get("local_test", []), content.get("local_test_from", "train")


def _row(row: dict[str, str]) -> Row:
    return {column: float(value) for column, value in row.items() if value and not column.startswith("time")}


def _round(checkpoint: Path, row: Row, like: Parameters) -> Round:
    server = {name: by_name(t, like) for name, t in load_file(checkpoint / "server.safetensors").items()}
    memory: dict[int, State] = {}
    last: dict[int, int] = {}
    file = checkpoint / "memory.0.safetensors"
    stored = load_file(file) if file.exists() else {}
    for place, k in enumerate(stored.pop("ids", [])):
        last |= {int(k): int(t[place]) for name, t in stored.items() if name == "round"}
        memory[int(k)] = {name: by_name(t[place], like) for name, t in stored.items() if name != "round"}
    return Round(server, memory, last, row)
