"""Where a user's runs keep what is long in the making, and what decides their bits."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from fl_ddp.host.environment import cache_folder, prepare


def test_caches_are_where_users_have_theirs_and_else_among_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/own")
    assert cache_folder() == Path("/own/fl_ddp")
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/somebody")
    assert cache_folder() == Path("/somebody/.cache/fl_ddp")

    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    assert cache_folder() == Path(tempfile.gettempdir(), f"fl_ddp_{os.getuid()}")


_HOW = {
    "command": "from fl_ddp.main import main; main(['--rounds', '0', '--out', '{out}'])",
    "users": "import fl_ddp; fl_ddp.simulate(rounds=0, out='{out}', model='{out}/own.py:net')",
    "notebook": "import fl_ddp; fl_ddp.simulate(rounds=0, out='{out}', stream='Rotated')",
    "torchvision": "import torchvision, fl_ddp; fl_ddp.simulate(rounds=0, out='{out}')",
    "check": "import fl_ddp.check.preloaded",
}


@pytest.mark.parametrize(
    "code",
    [pytest.param(code, marks=[pytest.mark.slow] * (name != "command")) for name, code in _HOW.items()],
    ids=_HOW,
)
def test_compiled_steps_are_kept_in_the_cache_of_the_user(tmp_path: Path, code: str) -> None:
    net = "def net(): return nn.Sequential(nn.Flatten(), nn.Linear(64, 10))"
    (tmp_path / "own.py").write_text(f"import torch._dynamo\nfrom torch import nn\n{net}\n")
    asks = (
        "import sys; from torch._inductor.runtime.cache_dir_utils import cache_dir;"
        "print('sklearn' in sys.modules, cache_dir())"
    )
    code = f"{code.format(out=tmp_path)}; {asks}"
    variables = {name: value for name, value in os.environ.items() if name != "TORCHINDUCTOR_CACHE_DIR"}
    told = subprocess.run(
        [sys.executable, "-c", code],
        env=variables | {"XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    # digits are read without what scikit-learn imports
    assert told.stdout.splitlines()[-1] == f"False {tmp_path}/fl_ddp/compiled"


@pytest.mark.parametrize(
    ("words", "imported"),
    [
        (["--version"], "set()"),
        (["--help"], "{'torch'}"),
        (["--rounds", "x"], "{'torch'}"),
        (["--method", "FedProx", "--rounds", "x"], "{'torch'}"),
    ],
)
def test_a_question_is_answered_before_what_only_runs_need_is_imported(words: list[str], imported: str) -> None:
    code = (
        "import atexit, sys; late = {'torch', 'torch._dynamo', 'matplotlib', 'scipy.optimize'};"
        "atexit.register(lambda: print(late & {*sys.modules}));"
        f"from fl_ddp.main import main; main({words})"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-1] == imported


def test_powers_are_tritons_whatever_else_is_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "triton" / "backends" / "nvidia" / "lib" / "libdevice.10.bc"
    monkeypatch.setenv("TRITON_LIBDEVICE_PATH", "")
    monkeypatch.delenv("TRITON_LIBDEVICE_PATH")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    prepare()
    assert "TRITON_LIBDEVICE_PATH" not in os.environ, "there is no Triton"
    file.parent.mkdir(parents=True)
    (tmp_path / "triton-3.dist-info").mkdir()
    (tmp_path / "triton-3.dist-info" / "METADATA").write_text("Name: triton\nVersion: 3\n")
    file.touch()
    importlib.invalidate_caches()
    prepare()
    assert os.environ["TRITON_LIBDEVICE_PATH"] == str(file)
    monkeypatch.setenv("TRITON_LIBDEVICE_PATH", "/own")
    prepare()
    assert os.environ["TRITON_LIBDEVICE_PATH"] == "/own"
