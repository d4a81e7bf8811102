"""Which version of a script's or a notebook's own classes a run is of."""

from __future__ import annotations

import linecache
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fl_ddp.config.command_line import from_mapping
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.versions.users_code import users_code

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


def test_a_class_of_a_script_that_has_no_text_there_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, main = tmp_path / "script.py", sys.modules["__main__"]
    script.write_text("import fl_ddp\n")
    monkeypatch.setattr(main, "__file__", str(script), raising=False)  # a process of xdist has none
    monkeypatch.setattr(main, "Made", type("Made", (FedAvg,), {"__module__": "__main__"}), raising=False)
    assert users_code(from_mapping({"method": "__main__.Made"})) == {}


REFERS = """
from beside_all import *
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
STARTED.append(1)
STARTED.sort(key=str)
print((DEPTH := 1))
numpy.seterr(all="warn")
with numpy.errstate(all="ignore"):
    SIZES[numpy.int8] = 1
HUGE = 0xHUGE
match count:
    case _:
        WIDE = 2

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
        count = half(SHARE) * DEEP * WIDE * DEPTH + numpy.ones(1).item() + len(STARTED) + quarter() + Kind.ONE.value
        return super().mean_delta(total) * count * CHOSEN.lam * len(SIZES) * too.factor(1)

for WIDTH in (GIVEN,):
    print(WIDTH)

class Made(Base):
    parts = [Part for count in range(WIDTH)]

class Other(FedAvg):
    pass
""".replace("HUGE", "f" * 4000).replace("f" * 4000 + " =", "HUGE =")
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
    ("        WIDE = 2", "        WIDE = 3"),
    ("STARTED.append(1)", "STARTED.append(1.5)"),
    ("(DEPTH := 1)", "(DEPTH := 2)"),
    ("* count * CHOSEN", "* count * 2 * CHOSEN"),
    ("range(WIDTH)", "range(WIDTH + 1)"),
    ("in (GIVEN,)", "in (GIVEN + 1,)"),
    ("@lru_cache\n", ""),
]
IDLE = [
    ("UNUSED = 1", "UNUSED = 2"),
    ("count = 3", "count = 4"),
    ("    pass\n", "    mu = 1\n"),
    ('numpy.seterr(all="warn")', 'numpy.seterr(all="ignore")'),
    ('numpy.errstate(all="ignore")', 'numpy.errstate(all="warn")'),
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
        (folder / "beside_all.py").write_text("LARGE = 2\n")

    def runs(self, text: str, given: int = 3) -> Path:
        """Run it."""
        main, self._number = sys.modules["__main__"], self._number + 1
        script = self._folder / str(self._number) / "script.py"
        script.parent.mkdir()
        script.write_text(text)
        for name in ("beside.py", "beside_too.py", "beside_all.py"):
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
        assert {Path(place).name for place in code} == {"beside.py", "beside_too.py", "beside_all.py", "script.py:Made"}
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


@pytest.mark.parametrize(
    "text",
    [
        "WIDTHS = (int(os.environ['GIVEN']), 1)\nclass Made(FedAvg):\n    widths = WIDTHS\n",
        "class A: pass\nclass B: pass\nKind = A if os.environ['GIVEN'] == '3' else B\n"
        "class Made(FedAvg):\n    kind = Kind\n",
    ],
)
def test_some_numbers_and_classes_that_a_command_line_has_decided_count_too(script: Script, text: str) -> None:
    found = []
    for given in (3, 4, 3):
        script.runs(f"import os\n{text}", given)
        found.append([*users_code(from_mapping({"method": "__main__.Made"})).values()])
    assert found[0] == found[2] != found[1] and len(found[0]) == 1


Cell = Callable[[str], dict[str, str]]


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Cell:
    """Runs a notebook's cell; what is known of its method then."""
    main = sys.modules["__main__"]
    monkeypatch.delattr(main, "__file__", raising=False)
    monkeypatch.setattr(linecache, "cache", {})
    monkeypatch.setattr(main, "FedAvg", FedAvg, raising=False)

    def ran(text: str) -> dict[str, str]:
        name, before = f"<ipython-input-{text}>", set(vars(main))
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), vars(main))
        for made in set(vars(main)) - before:
            value = vars(main).pop(made)
            monkeypatch.setattr(main, made, value, raising=False)
        return users_code(from_mapping({"method": "__main__.Made"}))

    return ran


def test_a_cell_that_is_run_again_is_as_it_was(cell: Cell) -> None:
    """Notebooks name a cell by what it says, so that one of before is not behind the one that it takes the place of."""
    text = "class Made(FedAvg):\n    def weight(self, n):\n        return {} * n\n"
    first, second, again = (cell(text.format(scale)) for scale in (1, 2, 1))
    assert first == again != second and [*first] == ["<notebook>:Made"]


def test_of_a_class_without_functions_the_last_cell_counts(cell: Cell) -> None:
    options = "class Options:\n    scale = {}\n"
    made = "class Made(FedAvg):\n    def weight(self, n):\n        return Options.scale * n\n"
    found = [cell(options.format(1) + made), *(cell(options.format(scale)) for scale in (2, 3))]
    assert len({each["<notebook>:Made"] for each in found}) == 3


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
