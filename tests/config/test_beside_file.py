"""Files that a YAML file names lie beside it; places of the machine and everything else stay as they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from fl_ddp.config.beside_file import beside
from fl_ddp.config.command_line import from_file, parse
from launch.tables.seeded_row import seeded_rows
from launch.tables.yaml_file import load_table


@pytest.mark.parametrize(
    ("key", "value", "found"),
    [
        ("partition.path", "counts.csv", "/there/counts.csv"),
        ("data.path", "../x.npz", "/x.npz"),
        ("partition.path", "/else/counts.csv", "/else/counts.csv"),
        ("partition.path", "~/counts.csv", "~/counts.csv"),
        ("partition.path", "", ""),
        ("data", "x.npz", "/there/x.npz"),
        ("data", "../x.csv", "/x.csv"),
        ("data.test_path", "y.csv", "/there/y.csv"),
        ("data", "MNIST", "MNIST"),
        ("data.root", "data", "data"),
        ("out", "runs", "runs"),
        ("name", "a.csv", "a.csv"),
        ("class_reduction", "less.csv", "/there/less.csv"),
        ("class_reduction", "0,3,50,10", "0,3,50,10"),
        ("client_lr", "own.csv", "/there/own.csv"),
        ("client_work", "uniform(1,2)", "uniform(1,2)"),
        ("availability", "who", "/there/who"),
        ("availability", None, None),
        ("init", "../other/run", "/other/run"),
        ("method", "own.py:Mine", "/there/own.py:Mine"),
        ("method", "package.module:Mine", "package.module:Mine"),
        ("method", "FedAvg", "FedAvg"),
        ("measures", ["own.py:mine", "module.mine"], ["/there/own.py:mine", "module.mine"]),
        ("measures", "own.py:mine", "/there/own.py:mine"),
        ("clients", 3, 3),
        ("partition.path", None, None),
    ],
)
def test_what_is_looked_for_beside_the_file(key: str, value: object, found: object) -> None:
    assert beside(Path("/there/run.yaml"), key, value) == found


def test_a_configuration_means_the_same_in_every_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "a"
    inside.mkdir()
    (inside / "run.yaml").write_text("partition: {name: FromCounts, path: counts.csv}\nclass_reduction: less.csv\n")
    monkeypatch.chdir(tmp_path)
    config = from_file(Path("a/run.yaml"))
    assert config.partition.init_args["path"] == str(inside / "counts.csv")
    assert config.class_reduction == str(inside / "less.csv")
    over = parse(["--config=a/run.yaml", "--partition.path=other.csv"])
    assert over.partition.init_args["path"] == "other.csv", "the command line starts at the working folder"


def test_so_does_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "base.yaml").write_text("partition: FromCounts\npartition.path: base.csv\n")
    head = "id: x\npaper: P\nitem: I\ntitle: T\ncost: none\ncolumns: {end: final}\n"
    rows = "{a: {}, b: {partition.path: own.csv, small: {partition.path: tiny.csv}}}"
    text = f"{head}groups:\n  g:\n    base: base.yaml\n    small: {{partition.path: small.csv}}\n    rows: {rows}\n"
    (tmp_path / "x.table.yaml").write_text(text)
    monkeypatch.chdir("/")
    table = load_table(str(tmp_path / "x.table.yaml"))
    found = [
        Path(str(each.trial.config.partition.init_args["path"])).name
        for small in (False, True)
        for each in seeded_rows(table.rows, [0], small=small, out=tmp_path, extra=[])
    ]
    assert found == ["base.csv", "own.csv", "small.csv", "tiny.csv"]
    (own, *_) = seeded_rows(table.rows, [0], small=True, out=tmp_path, extra=[])
    assert own.trial.config.partition.init_args["path"] == str(tmp_path / "small.csv")
