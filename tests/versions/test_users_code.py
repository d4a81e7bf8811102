"""Which files of a user's a run is of."""

from __future__ import annotations

import hashlib
import sys
import warnings
from pathlib import Path

import pytest
from launching import SMALL, resumed, simulated

import fl_ddp
from fl_ddp.building.same_options import code_of
from fl_ddp.config.command_line import from_mapping
from fl_ddp.versions.imported import imported_files
from fl_ddp.versions.users_code import users_code


def test_files_of_classes_are_told_by_their_path_however_they_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    library = tmp_path / "library"
    library.mkdir()
    monkeypatch.syspath_prepend(library)
    here, there = tmp_path / "told_by_its_path.py", library / "told_by_its_module.py"
    for file, names in {here: (f"{here.stem}.Mine", f"{here.name}:Mine"), there: (f"{there.stem}.Mine",)}.items():
        file.write_text("from fl_ddp.api import FedAvg\n\nclass Mine(FedAvg): pass\n")
        for name in names:
            known = {str(file): hashlib.sha256(file.read_bytes()).hexdigest()}
            assert users_code(from_mapping({"method": name})) == known
    assert users_code(from_mapping({"method": "FedAvg", "model": "torchvision.models.resnet18"})) == {}


def test_files_that_a_file_imports_are_of_the_run_and_what_is_installed_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "package_of_mine"
    package.mkdir()
    texts = {
        "imports_others.py": "import torch, random\nfrom helps import power\nfrom fl_ddp.api import FedAvg\n"
        "class Mine(FedAvg):\n    def late(self):\n        from package_of_mine import inner, constant\n",
        "helps.py": "import helps_the_helper as h, not_there\npower = h.power\n",
        "helps_the_helper.py": "import helps\npower = 2\n",
        "random.py": "raise ValueError\n",
        "unused.py": "",
        "package_of_mine/__init__.py": "constant = 3\n",
        "package_of_mine/inner.py": "from . import other\nfrom .. import helps\nimport package_of_mine.more\n"
        "from .random import draw\n",
        "package_of_mine/random.py": "draw = 4\n",
        "package_of_mine/other.py": "this is no Python\n",
        "package_of_mine/more.py": "",
        "package_of_mine/unused.py": "",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    first = tmp_path / "imports_others.py"
    first_bytes = first.read_bytes()
    of = {
        "helps.py",
        "helps_the_helper.py",
        *(f"package_of_mine/{n}.py" for n in ("__init__", "inner", "other", "more", "random")),
    }
    assert imported_files([first]) == {tmp_path / name for name in of}
    assert imported_files([tmp_path / "nowhere.py", package / "other.py"]) == set()
    beside_the_package = Path(fl_ddp.__file__).parents[1] / "examples_of_users.py"  # a file in a checkout
    monkeypatch.setattr(Path, "read_bytes", lambda self: first_bytes if self == beside_the_package else b"")
    assert imported_files([beside_the_package]) == set()


def test_ranks_compare_all_files_though_packages_have_some_of_one_name(tmp_path: Path) -> None:
    config = from_mapping({"method": of_packages(tmp_path, "inner = 1\n")})
    first = code_of(config)
    of_packages(tmp_path, "inner = 2\n")
    assert code_of(config) != first and set(first) == {"needs_packages.py", "__init__.py"}


def test_where_files_lie_is_nothing_that_ranks_compare(monkeypatch: pytest.MonkeyPatch) -> None:
    for places in (("/a/__init__.py", "/b/__init__.py"), ("/y/__init__.py", "/x/__init__.py")):
        found = dict(sorted(zip(places, ("one", "two"), strict=True)))
        monkeypatch.setattr("fl_ddp.building.same_options.users_code", lambda config, values, found=found: found)
        assert code_of(from_mapping({})) == {"__init__.py": "one two"}


def of_packages(folder: Path, text: str) -> str:
    """A method in a file that imports two packages, one in the other, whose text this is."""
    inner = folder / "an_outer_package" / "an_inner_package"
    inner.mkdir(parents=True, exist_ok=True)
    (inner.parent / "__init__.py").write_text(text)
    (inner / "__init__.py").write_text("")
    file = folder / "needs_packages.py"
    file.write_text(
        "import an_outer_package.an_inner_package\nfrom fl_ddp.api import FedAvg\n\nclass Mine(FedAvg): pass\n"
    )
    return f"{file}:Mine"


def test_what_cannot_be_read_imports_nothing(tmp_path: Path) -> None:
    odd = tmp_path / "odd.py"
    (tmp_path / "beside_odd.py").write_text("")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for text, found in (
            ("from " + "." * 99 + " import x\nimport beside_odd\n", {tmp_path / "beside_odd.py"}),
            ("x = " + "-" * 100_000 + "1\nimport beside_odd\n", set()),
            ("x = '\\d'\nimport beside_odd\n", {tmp_path / "beside_odd.py"}),
        ):
            odd.write_text(text)
            assert imported_files([odd]) == found


def test_an_edited_helper_is_told_of_on_resume(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    helper, method = tmp_path / "half_of_it.py", tmp_path / "takes_a_helper.py"
    helper.write_text("SHARE = 0.5\n")
    method.write_text(
        "from dataclasses import dataclass\nfrom half_of_it import SHARE\nfrom fl_ddp.api import FedAvg\n\n"
        "@dataclass(frozen=True)\nclass Mine(FedAvg):\n    def mean_delta(self, total):\n"
        "        return SHARE * super().mean_delta(total)\n"
    )
    run = simulated({**SMALL, "method": f"{method}:Mine", "rounds": 1}, tmp_path)
    helper.write_text("SHARE = 0.25\n")
    del sys.modules["half_of_it"], sys.modules["takes_a_helper"]  # as in another process
    capfd.readouterr()
    resumed(run, rounds=2)
    assert f"warning: {helper} is not as it was when the run began" in capfd.readouterr().out
