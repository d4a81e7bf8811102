"""What simulate() makes of arrays, before a run begins."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
