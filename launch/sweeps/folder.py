"""The folder of a sweep: sweep.json, which knows its points, beside the folders of their runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fl_ddp.config.beside_file import beside
from fl_ddp.host.atomic_file import write_text
from fl_ddp.reading.json_file import read_json_if_there
from launch.input import fields
from launch.input.words import key_of
from launch.sweeps.points import Point, folder_name

SWEEP_FILE = "sweep.json"


@dataclass(frozen=True)
class Entry:
    """A point of a sweep.

    Attributes:
        point: its options.
        failed: why its run failed; None while it did not.
    """

    point: Point
    failed: str | None = None


@dataclass
class Sweep:
    """What sweep.json holds.

    Attributes:
        folder: of the sweep.
        base: options of fl_ddp.main that all its runs have.
        entries: its points, by the names of their folders.
    """

    folder: Path
    base: tuple[str, ...] = ()
    entries: dict[str, Entry] = field(default_factory=dict)

    def add(self, points: Iterable[Point]) -> list[str]:
        """Take in the points that it does not have yet; the names of all that are given."""
        names = []
        there = {frozenset(entry.point.items()): name for name, entry in self.entries.items()}
        for point in points:
            rooted = {key: _from_root(key, value) for key, value in point.items()}
            known = there.get(frozenset(rooted.items())) or there.get(frozenset(point.items()))
            names.append(known or folder_name(point))
            self.entries[names[-1]] = replace(self.entries.get(names[-1], Entry(rooted)), point=rooted)
        return names

    def set_failed(self, name: str, why: str | None) -> None:
        """Note why a point's run failed, or that it did not."""
        self.entries[name] = replace(self.entries[name], failed=why)

    def write(self) -> None:
        """Replace the file in one step.

        Raises:
            RunError: it cannot be written.
        """
        points = [
            {"folder": name, "options": dict(entry.point)} | ({"failed": entry.failed} if entry.failed else {})
            for name, entry in self.entries.items()
        ]
        varied = dict.fromkeys(key for entry in self.entries.values() for key in entry.point)
        content = {"base": list(self.base), "varied": list(varied), "points": points}
        write_text(self.folder / SWEEP_FILE, json.dumps(content, indent=2) + "\n")


def read_sweep(folder: Path) -> Sweep:
    """What is known of a sweep; nothing yet where there is none.

    Raises:
        ConfigError: there is a file that is not a sweep's.
    """
    path = folder / SWEEP_FILE
    held = read_json_if_there(path, "is not what a sweep writes")
    if held is None:
        return Sweep(folder)
    fields.keys(held, ("base", "varied", "points"), (), f"{path}: ")
    base = tuple(fields.text(each, f"{path}: base") for each in fields.listing(held["base"], f"{path}: base"))
    points = fields.listing(held["points"], f"{path}: points")
    return Sweep(folder, base, dict(_entry(each, f"{path}: points[{i}]") for i, each in enumerate(points)))


def kept(option: str) -> str:
    """An option of all runs as sweep.json keeps it: files and folders from the root, to go on from any folder."""
    key, equals, value = option.removeprefix("--").partition("=")
    return f"--{key}={_from_root(key, value)}" if equals else option


def _from_root(key: str, value: str) -> str:
    if not value.strip("[]") or value.startswith("~"):
        return value
    if key == "config" or key.endswith(".root"):
        return str(Path(value).absolute())
    here = Path.cwd() / "sweep"
    if key == "measures":
        return ",".join(str(beside(here, key, each.strip())) for each in value.strip("[]").split(","))
    return str(beside(here, key, value))


def over(before: Sequence[str], given: Sequence[str]) -> tuple[str, ...]:
    """Options of which the given ones take the place of those before."""
    return (*(each for each in before if key_of(each) not in set(map(key_of, given))), *given)


def _entry(given: object, where: str) -> tuple[str, Entry]:
    content = fields.mapping(given, where)
    fields.keys(content, ("folder", "options"), ("failed",), f"{where}.")
    options = fields.mapping(content["options"], f"{where}.options")
    point = {key: fields.text(value, f"{where}.options.{key}") for key, value in options.items()}
    failed = fields.text(content["failed"], f"{where}.failed") if "failed" in content else None
    return fields.text(content["folder"], f"{where}.folder"), Entry(point, failed)
