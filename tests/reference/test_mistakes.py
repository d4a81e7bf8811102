"""The comparison sees mistakes: each of many, planted into the reference, makes a case fail.

mistakes/ has a text for each file of the reference, in a folder as the file's: of every mistake the case in which it
must show, what it is, the piece of the file that is right, and what stands there instead.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

import pytest
from cases import CASES
from comparison import Difference, differences, start_of
from launching import simulated
from reference_run import program_options
from samples import write_samples
from stored_run import divided, stored_rounds

HERE = Path(__file__).parent
REFERENCE = [file.stem for file in HERE.rglob("*.py") if not file.stem.startswith("test_")]


class Mistake(NamedTuple):
    """An edit of one place of the reference.

    Attributes:
        file: of the reference.
        case: in which it must show.
        what: is wrong.
        right: the place, which the file has once.
        wrong: what stands there instead.
    """

    file: str
    case: str
    what: str
    right: str
    wrong: str


def mistakes() -> Iterator[Mistake]:
    """All that are planted."""
    for text in sorted((HERE / "mistakes").rglob("*.txt")):
        file = text.relative_to(HERE / "mistakes").with_suffix(".py").as_posix()
        for block in text.read_text(encoding="utf-8").split("\n\n"):
            title, right, wrong = block.strip().split("\n")
            case, _, what = title.partition(" | ")
            yield Mistake(file, case, what, right.removeprefix("- "), wrong.removeprefix("+ "))


@pytest.fixture(scope="session")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder in which the program has run a case, once for all mistakes; its samples are one above."""
    done: dict[str, Path] = {}

    def run(name: str) -> Path:
        if name not in done:
            folder = tmp_path_factory.mktemp("case")
            write_samples(folder)
            done[name] = simulated(program_options(CASES[name], folder) | {"name": "run"}, folder)
        return done[name]

    return run


def plant(mistake: Mistake, patch: pytest.MonkeyPatch) -> None:
    """Have the reference imported anew, with the mistake."""
    for name in REFERENCE:
        patch.delitem(sys.modules, name, raising=False)
    path = HERE / mistake.file
    source = path.read_text(encoding="utf-8")
    assert source.count(mistake.right) == 1
    changed = ModuleType(path.stem)
    patch.setitem(sys.modules, path.stem, changed)
    exec(compile(source.replace(mistake.right, mistake.wrong), str(path), "exec"), changed.__dict__)


def shown(mistake: Mistake, run: Path, patch: pytest.MonkeyPatch) -> list[Difference]:
    """What a run of the program differs in from a reference with the mistake."""
    case = CASES[mistake.case]
    found = stored_rounds(run, start_of(case))
    plant(mistake, patch)
    mistaken = importlib.import_module("reference_run")
    return differences(case, found, mistaken.reference_rounds(case, run.parent, divided(run / "partition.json")))


@pytest.mark.slow
@pytest.mark.parametrize("mistake", tuple(mistakes()), ids=lambda mistake: mistake.what)
def test_a_mistake_shows(mistake: Mistake, run_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(mistake, run_of(mistake.case), monkeypatch) != []


def test_without_a_mistake_nothing_shows(run_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    first = next(mistakes())
    assert shown(first._replace(wrong=first.right), run_of(first.case), monkeypatch) == []


def test_every_mistake_can_still_be_planted() -> None:
    """What the slow test above would find out, at once."""
    texts = {each.file: (HERE / each.file).read_text(encoding="utf-8") for each in mistakes()}
    assert [each.what for each in mistakes() if texts[each.file].count(each.right) != 1] == []
    assert {each.case for each in mistakes()} <= CASES.keys()
