"""What a resumed run finds in its folder: settings that were edited, results without checkpoints, damaged ones."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
from launching import SMALL, checkpoints, content, copied, numbers, resumed, simulated

from fl_ddp.errors import ConfigError
from fl_ddp.results.appended_csv import AppendedCsv


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run of three rounds."""
    return simulated({**SMALL, "keep_checkpoints": 3}, tmp_path_factory.mktemp("short"))


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("lr", "0.3", "lr: 0.3 is not the 0.1 that the run was started with"),
        ("momentum", "0.9", "momentum: 0.9 is not the 0.5 that the run was started with"),
        # which divides the samples otherwise
        ("local_test", "0.4", "local_test: 0.4 is not the 0.0 that the run was started with"),
        ("rounds", "3", ""),
        ("out", "elsewhere", ""),
    ],
)
def test_a_run_does_not_go_on_with_edited_settings(
    tmp_path: Path, short: Path, key: str, value: str, message: str
) -> None:
    run = copied(short, tmp_path)
    shutil.rmtree(run / "checkpoints" / "round_000003")
    file = run / "config.yaml"
    file.write_text(re.sub(rf"(?m)^{key}: .*$", f"{key}: {value}", file.read_text()))
    before = content(run)
    if not message:
        assert numbers(resumed(run)) == numbers(short)
        return
    with pytest.raises(ConfigError) as error:
        resumed(run)
    assert str(error.value) == f"{file}: {message}; accepted: the file as the run has written it"
    assert content(run) == before


@pytest.fixture
def beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """A method of a module in the working folder, by its import path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)

    def write(option: str) -> str:
        module = f"beside_the_run_{len(option)}"
        head = "import math\nfrom dataclasses import dataclass\nfrom fl_ddp.api import FedAvg\n\n\n"
        Path(f"{module}.py").write_text(
            f"{head}@dataclass(frozen=True)\nclass Mine(FedAvg):\n    most: float = {option}\n"
        )
        return f"{module}.Mine"

    return write


def test_a_class_of_a_module_beside_the_run_goes_on(tmp_path: Path, beside: Callable[[str], str]) -> None:
    settings = {**SMALL, "method": beside("1.5")}
    whole = simulated({**settings, "name": "whole"}, tmp_path)
    part = simulated({**settings, "rounds": 1}, tmp_path)
    assert numbers(resumed(part, rounds=3)) == numbers(whole)


def test_options_that_json_has_no_number_for_are_saved(tmp_path: Path, beside: Callable[[str], str]) -> None:
    run = simulated({**SMALL, "method": beside("math.inf"), "rounds": 1}, tmp_path)
    assert checkpoints(run) == ["round_000001"]


@pytest.mark.parametrize("damage", ["gone", "cut short"])
def test_results_are_not_lost_for_want_of_a_checkpoint(
    tmp_path: Path, short: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    run = copied(short, tmp_path)
    for folder in (run / "checkpoints").glob("round_*"):
        shutil.rmtree(folder) if damage == "gone" else os.truncate(folder / "state.json", 9)
    before = content(run)
    resumed(run)
    assert f"{run} is finished" in capsys.readouterr().out and content(run) == before
    with pytest.raises(ConfigError, match=r"^--resume: .* has the results of a run, summary.json, and no usable"):
        resumed(run, rounds=5)
    assert content(run) == before


def test_rounds_are_not_lost_for_want_of_a_checkpoint(tmp_path: Path, short: Path) -> None:
    """Begun anew, a run has the same ones, but no more than it is asked for."""
    run = copied(short, tmp_path)
    (run / "summary.json").unlink()
    shutil.rmtree(run / "checkpoints")
    before = content(run)
    with pytest.raises(
        ConfigError, match=r"^--rounds: 2, but .* has no usable checkpoint, and 3 rounds, which it would"
    ):
        resumed(run, rounds=2)
    assert content(run) == before
    (run / "metrics.csv").write_bytes((run / "metrics.csv").read_bytes() + b"\xff\0\n")
    assert numbers(resumed(run)) == numbers(short), "of a damaged file nothing is kept"


@pytest.mark.parametrize("text", ['{"rounds": 2', "[]", "{}"])
def test_damaged_results_are_made_anew(tmp_path: Path, short: Path, text: str) -> None:
    run = copied(short, tmp_path)
    (run / "summary.json").write_text(text)
    assert numbers(resumed(run)) == numbers(short)
    assert json.loads((run / "summary.json").read_text())["rounds"] == 3


def test_code_that_was_edited_since_is_told_of(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It may be a mend: the run goes on with what it says now."""
    file = tmp_path / "edited_since.py"
    file.write_text("from fl_ddp.api import FedAvg\n\n\nclass Mine(FedAvg):\n    pass\n")
    run = simulated({**SMALL, "method": f"{file}:Mine", "keep_checkpoints": 3}, tmp_path)
    told = f"fl_ddp: warning: {file} is not as it was when the run began"
    for edited in (False, True):
        shutil.rmtree(run / "checkpoints" / "round_000003")
        capfd.readouterr()
        resumed(run)
        assert (told in "".join(capfd.readouterr())) == edited
        file.write_text(file.read_text() + "\n# other words\n")
        sys.modules.pop("edited_since")  # as in another process


def test_rows_of_a_long_run_are_read_one_after_the_other(tmp_path: Path) -> None:
    """As dictionaries all at once they take 20 times as much, with which no long run could go on."""
    path, columns, number = tmp_path / "some.csv", ("round", "client"), 50_000
    file, none = AppendedCsv.opened(path, columns, None)
    file.append({"round": i, "client": i % 7} for i in range(number))
    file.close()
    assert not list(none)
    tracemalloc.start()
    again, rows = AppendedCsv.opened(path, columns, file.state())
    assert sum(int(row["round"]) for row in rows) == number * (number - 1) // 2
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    again.close()
    assert most < 12 * path.stat().st_size
