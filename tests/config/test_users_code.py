"""Which files of a user's a run is of."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from launching import SMALL, resumed, simulated

import fl_ddp
from fl_ddp.building.same_options import code_of
from fl_ddp.config.command_line import from_mapping
from fl_ddp.config.users_code import imported_files, users_code
from fl_ddp.methods.fedavg import FedAvg

SCRIPT = '''
import sys
from dataclasses import dataclass
from fl_ddp import simulate
from fl_ddp.api import FedAvg

@dataclass(frozen=True)
class Slower(FedAvg):
    """FedAvg of a part of a step."""

    def mean_delta(self, total):
        return {share} * super().mean_delta(total)

if __name__ == "__main__":
    small = dict(clients=4, local_epochs=0.2, compile=False, device="cpu", checkpoint_every=1)
    simulate({call})
'''
FIRST, AGAIN = 'method=Slower, rounds=1, out="o", name="r", **small', 'resume="o/r", rounds=2'


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


def test_a_class_of_a_script_that_has_no_text_there_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, main = tmp_path / "script.py", sys.modules["__main__"]
    script.write_text("import fl_ddp\n")
    monkeypatch.setattr(main, "__file__", str(script), raising=False)  # a process of xdist has none
    monkeypatch.setattr(main, "Made", type("Made", (FedAvg,), {"__module__": "__main__"}), raising=False)
    assert users_code(from_mapping({"method": "__main__.Made"})) == {}


REFERS = """
import numpy
import os
import time
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial
from beside import Part
import beside_too as too

SHARE = 0.5
UNUSED = 1
count = 3
SIZES = {"a": (1, 2)}
STARTED = [time.time(), SIZES]
GIVEN = int(os.environ["GIVEN"])
if SHARE:
    DEEP = 4

class Kind(Enum):
    ONE = 1

@dataclass(frozen=True, slots=True)
class Options:
    lam: float = 1.0

CHOSEN = Options(0.25)
SIZES["b"] = 3

@lru_cache
def half(x):
    return x / 2

quarter = partial(half, 4)

class Base(FedAvg):
    def mean_delta(self, total):
        count = half(SHARE) * DEEP + len(STARTED) + quarter() + Kind.ONE.value
        return super().mean_delta(total) * count * CHOSEN.lam * len(SIZES) * too.factor(1)

for WIDTH in (GIVEN,):
    print(WIDTH)

class Made(Base):
    parts = [Part for count in range(WIDTH)]

class Other(FedAvg):
    pass
"""
TELLING = [
    ("SHARE = 0.5", "SHARE = 0.6"),
    ('{"a": (1, 2)}', '{"a": (1, 3)}'),
    ('SIZES["b"] = 3', 'SIZES["b"] = 4'),
    ("Options(0.25)", "Options(0.5)"),
    ("lam: float = 1.0", "lam: float = 2.0"),
    ("x / 2", "x / 3"),
    ("partial(half, 4)", "partial(half, 5)"),
    ("    ONE = 1", "    ONE = 2"),
    ("    DEEP = 4", "    DEEP = 5"),
    ("* count * CHOSEN", "* count * 2 * CHOSEN"),
    ("range(WIDTH)", "range(WIDTH + 1)"),
    ("in (GIVEN,)", "in (GIVEN + 1,)"),
    ("@lru_cache\n", ""),
]
IDLE = [
    ("UNUSED = 1", "UNUSED = 2"),
    ("count = 3", "count = 4"),
    ("    pass\n", "    mu = 1\n"),
    ("import numpy", "import numpy as np"),
    ("print(WIDTH)", "print(WIDTH, WIDTH)"),
    ("SHARE = 0.5", "# half\n\nSHARE  =  0.5"),
]


class Script:
    """A script that this process seems to run."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder, self._patch, self._number = folder, monkeypatch, 0
        monkeypatch.syspath_prepend(folder)
        (folder / "beside.py").write_text("class Part:\n    size = 1\n")
        (folder / "beside_too.py").write_text("def factor(x):\n    return x\n")

    def runs(self, text: str, given: int = 3) -> Path:
        """Run it."""
        main, self._number = sys.modules["__main__"], self._number + 1
        script = self._folder / str(self._number) / "script.py"
        script.parent.mkdir()
        script.write_text(text)
        for name in ("beside.py", "beside_too.py"):
            (script.parent / name).symlink_to(self._folder / name)
        names: dict[str, object] = {"__name__": "__main__", "FedAvg": FedAvg}
        self._patch.setenv("GIVEN", str(given))
        self._patch.setattr(main, "__file__", str(script), raising=False)
        exec(compile(text, str(script), "exec"), names)
        for name in names.keys() - {"__name__", "__builtins__"}:
            self._patch.setattr(main, name, names[name], raising=False)
        return script

    def said(self, *, values: bool = True) -> str:
        """What is known of its method."""
        code = users_code(from_mapping({"method": "__main__.Made"}), values=values)
        assert {Path(place).name for place in code} == {"beside.py", "beside_too.py", "script.py:Made"}
        return next(each for place, each in code.items() if place.endswith(":Made"))


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    return Script(tmp_path, monkeypatch)


@pytest.mark.parametrize(("before", "now"), TELLING + IDLE, ids=str)
def test_a_class_of_a_script_is_what_it_refers_to_there_too(script: Script, before: str, now: str) -> None:
    """Bases, functions, constants and imported files; nothing it does not name, or has a variable of its own of."""
    found = []
    for text in (REFERS, REFERS.replace(before, now)):
        script.runs(text)
        found.append(script.said())
    assert REFERS.replace(before, now) != REFERS and (found[0] != found[1]) == ((before, now) in TELLING)


def test_numbers_that_a_command_line_has_decided_count_but_among_ranks(script: Script) -> None:
    """As a rank's own number may be among them."""
    found, among_ranks = [], []
    for given in (3, 4, 3):
        script.runs(REFERS, given)
        found.append(script.said())
        among_ranks.append(script.said(values=False))
    assert found[0] == found[2] != found[1] and len({*among_ranks}) == 1


def test_a_script_that_is_edited_while_it_runs_is_as_it_was(script: Script) -> None:
    file = script.runs(REFERS)
    before = script.said()
    file.write_text("# four\n# lines\n# more\n# now\n" + REFERS.replace("x / 2", "x / 3"))
    assert script.said() == before


CELLS = '''
import linecache, warnings
from dataclasses import dataclass
import fl_ddp
from fl_ddp.api import FedAvg
from torch import nn

def cell(number, text):
    """As IPython runs one."""
    name = f"<cell {{number}}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    exec(compile(text, name, "exec"), globals())

NET = """
class Net(nn.Module):
    def __init__(self, in_shape, num_classes):
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, num_classes))

    def forward(self, x):
        return {{sign}}self.body(x)

@dataclass(frozen=True)
class Mine(FedAvg):
    mu: float = 0.5
    scale = {{scale}}

    def mean_delta(self, total):
        return {{sign}}self.mu * super().mean_delta(total)
"""
small = dict(clients=4, local_epochs=0.2, compile=False, device="cpu", checkpoint_every=1, figures=False, out="o")
cell(1, NET.replace("{{sign}}", "").replace("{{scale}}", "1"))
run = fl_ddp.simulate(model=Net, method=Mine, rounds=1, name="r", **small)
cell(2, NET.replace("{{sign}}", {sign!r}).replace("{{scale}}", "{scale}"))
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    run.model
print([str(each.message) for each in told])
fl_ddp.simulate(resume="o/r", rounds=2)
'''


@pytest.mark.slow
@pytest.mark.parametrize(("sign", "scale", "told"), [("", 1, []), ("", 2, ["Mine"]), ("-", 1, ["Net", "Mine"])])
def test_a_class_of_a_cell_is_told_of_when_it_was_defined_anew_otherwise(
    tmp_path: Path, sign: str, scale: int, told: list[str]
) -> None:
    script = CELLS.format(sign=sign, scale=scale)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=True)
    for name in ("Net", "Mine"):
        assert (f"<notebook>:{name} is not as it was when the run was made" in done.stdout) == (name in told)
        assert (f"warning: <notebook>:{name} is not as it was when the run began" in done.stdout) == (name in told)


@pytest.mark.slow
def test_a_class_of_a_script_is_told_of_when_it_was_edited_and_the_rest_of_the_script_is_not(tmp_path: Path) -> None:
    file = tmp_path / "script.py"

    def said(share: float, call: str) -> str:
        file.write_text(SCRIPT.format(share=share, call=call))
        done = subprocess.run([sys.executable, str(file)], cwd=tmp_path, capture_output=True, text=True, check=True)
        return done.stdout + done.stderr

    warning = f"warning: {file}:Slower is not as it was when the run began; what it says now counts from here on"
    said(0.5, FIRST)
    assert "warning" not in said(0.5, AGAIN)
    assert warning in said(0.25, AGAIN.replace("2", "3"))
