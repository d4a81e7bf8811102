"""What an installation without a checkout has."""

from __future__ import annotations

import importlib
from configparser import ConfigParser
from pathlib import Path

import yaml

from fl_ddp.version import __version__
from launch.tables.yaml_file import CONFIGS, table_names

ROOT = CONFIGS.parent


def setup() -> ConfigParser:
    parser = ConfigParser()
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(ROOT / "setup.cfg")
    return parser


def test_a_wheel_has_all_recipes() -> None:
    files = dict(setup()["options.data_files"])
    installed = {
        f"{folder.removeprefix('share/fl_ddp/')}/{path.name}"
        for folder, patterns in files.items()
        for pattern in patterns.split()
        for path in ROOT.glob(pattern)
        if path.parent == ROOT / folder.removeprefix("share/fl_ddp/")
    }
    assert installed == {path.relative_to(ROOT).as_posix() for path in CONFIGS.rglob("*") if path.is_file()}
    assert len(table_names()) > 30


def test_the_command_is_there() -> None:
    (line,) = setup()["options.entry_points"]["console_scripts"].split("\n")[1:]
    name, _, target = line.partition(" = ")
    module, _, function = target.partition(":")
    assert name == "fl-ddp" and callable(getattr(importlib.import_module(module), function))


def test_the_citation_is_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == __version__ and citation["license"] == setup()["metadata"]["license"]
    assert Path(ROOT / "MANIFEST.in").read_text().startswith("graft configs\n")
