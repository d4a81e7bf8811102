"""What simulate() makes of arrays, before a run begins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fl_ddp.config.yaml_file import to_yaml
from fl_ddp.errors import ConfigError
from fl_ddp.notebook.asked import asked

X, Y = np.arange(12, dtype=np.float32).reshape(6, 2), np.arange(6) % 2


def test_options_beside_arrays_are_kept_with_their_file(tmp_path: Path) -> None:
    data = asked({"data.merge": True, "out": str(tmp_path)}, {"data": (X, Y, X, Y)}).config.data
    assert data.init_args["merge"] is True and Path(str(data.init_args["path"])).is_file()


def test_a_run_goes_on_with_its_own_arrays_alone(tmp_path: Path) -> None:
    begun = asked({"out": str(tmp_path)}, {"data": (X, Y, X, Y)}).config
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.yaml").write_text(to_yaml(begun))
    on = {"resume": str(tmp_path / "run")}
    assert asked(on, {"data": (X, Y, X, Y)}).config.data == begun.data
    with pytest.raises(ConfigError, match=r"data: is not what .*run began with; accepted: the same, or none"):
        asked(on, {"data": (X + 1, Y, X, Y)})


def test_numbers_and_arrays_of_numpys_are_taken_wherever_they_stand(tmp_path: Path) -> None:
    half, adam = np.float64(0.5), {"name": "Adam", "betas": (np.float64(0.8), np.float32(0.5))}
    config = asked({"out": str(tmp_path)}, {"targets": [half], "optimizer": adam, "lr": np.float64(0.1)}).config
    assert config.targets == (0.5,) and "betas: [0.8, 0.5]" in to_yaml(config).replace("\n  - ", " ")
    assert asked({"out": str(tmp_path)}, {"targets": np.array([0.25, 0.5])}).config.targets == (0.25, 0.5)


def test_what_is_no_value_is_told_in_one_line(tmp_path: Path) -> None:
    weights = {f"layers.{i}.weight": torch.arange(2000.0) for i in range(9)}
    with pytest.raises(ConfigError, match=r"^init: .*\.\.\. has the wrong type; accepted: ") as told:
        asked({"out": str(tmp_path)}, {"init": weights})
    assert "\n" not in str(told.value) and len(str(told.value)) < 300
    assert asked({"out": str(tmp_path)}, {"lr": torch.tensor(0.5)}).config.lr == 0.5


class Large(np.ndarray):
    """An array that takes long to be spelled."""

    def tolist(self) -> object:  # type: ignore[override]
        raise AssertionError("data are kept in a file")


def test_arrays_and_divisions_are_not_spelled(tmp_path: Path) -> None:
    given = {"data": (X.view(Large), Y.view(Large), X, Y), "partition": [np.arange(3).view(Large), np.arange(3, 6)]}
    assert asked({"out": str(tmp_path)}, given).config.clients == 2
