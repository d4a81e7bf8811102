"""Every method in fl_ddp/methods passes the checks; it is found by being there."""

from __future__ import annotations

import dataclasses
import inspect
import io
import re
import tokenize
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import broken_methods
import pytest
from method_settings import FOR_METHODS

from fl_ddp.check.candidate import Case
from fl_ddp.check.handlers import Finding
from fl_ddp.check.judge import Judge
from fl_ddp.check.rules import RULES
from fl_ddp.config import registry
from fl_ddp.methods.fedavg import FedAvg

Findings = Callable[[str], Mapping[str, Finding]]

METHODS = {name: owner for name, owner in registry.known("method").items() if issubclass(owner, FedAvg)}
CHECKS = tuple(rule.name for rule in RULES)
COMPILED = ("once", "compiled")
AT_ONCE = ("FedCurv", "Scaffold")
"""Methods that are checked in the default suite, but for compiled: with importance and a penalty, and with a memory."""
MISTAKEN_AT_ONCE = ("LooksAtNeighbours", "RemembersElsewhere")
"""Methods with mistakes that are likewise."""
MOST_LINES = 110
"""Lines of code in a method's file, docstrings, comments and blank lines aside."""

CAUGHT = {
    "LooksAtNeighbours": {"lanes", "order", "padding", "ranks"},
    "CountsPaddedLanes": {"lanes", "padding"},
    "WritesInPlace": {"intact"},
    "RemembersElsewhere": {"resume"},
    "NearlyNeutral": {"neutral"},
    "ForgetsItsCoefficient": {"effect"},
    "Grows": {"once"},
    "BeginsDifferently": {"shapes"},
    "RemembersOtherRuns": {"again"},
    "CountsGroups": {"order"},
    "KnowsItsRanks": {"ranks"},
    "DiffersWhenCompiled": {"compiled"},
}
"""Which checks find the mistakes of broken_methods.py."""
NEEDLESS = {
    "FedAvg": {"neutral", "effect"}, "FedDyn": {"neutral"}, "FedNova": {"neutral"}, "Scaffold": {"neutral"},
    "FedFomo": {"neutral"}, "FedPAC": {"neutral"}, "FedPer": {"neutral"}, "FedBN": {"neutral"}, "FedRep": {"neutral"},
    "LocalOnly": {"neutral"}, "Ditto": {"effect"}, "FilVer": {"neutral"}, "FedOpt": {"neutral"},
    "LwF": {"neutral"},
}  # fmt: skip
"""Which checks ask nothing of a method."""


@pytest.fixture(scope="session")
def findings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Findings]:
    """What the checks find of a method; those alone are made that a test of this session asks for."""
    folder = tmp_path_factory.mktemp("checks")
    wanted: dict[str, list[str]] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and "findings" in item.fixturenames:
            name, check = (item.callspec.params.get(key) for key in ("name", "check"))
            wanted.setdefault(str(name), []).extend([str(check)] if check else sorted(CAUGHT[str(name)]))
    with Judge() as judge:

        @cache
        def found(name: str) -> Mapping[str, Finding]:
            owner = METHODS.get(name) or getattr(broken_methods, name)
            case = Case(name, {"method": f"{owner.__module__}.{name}", **FOR_METHODS.get(name, {})}, folder)
            return {each.rule: each for each in judge.findings(case, wanted[name])}

        yield found


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(name, check, marks=[pytest.mark.slow] * (check in COMPILED or name not in AT_ONCE))
        for name in METHODS
        for check in CHECKS
    ],
)
def test_method_passes(findings: Findings, name: str, check: str) -> None:
    found = findings(name)[check]
    assert found.verdict == ("not applicable" if check in NEEDLESS.get(name, ()) else "holds"), found


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] * (name not in MISTAKEN_AT_ONCE)) for name in CAUGHT]
)
def test_checks_catch_the_mistake_of(findings: Findings, name: str) -> None:
    assert {check for check, found in findings(name).items() if found.verdict == "does not hold"} >= CAUGHT[name]


def test_every_check_can_fail() -> None:
    assert set().union(*CAUGHT.values()) == set(CHECKS)


@pytest.mark.parametrize("owner", METHODS.values(), ids=METHODS)
def test_method_is_a_frozen_dataclass_on_fedavg_in_a_file_of_its_name(owner: type[FedAvg]) -> None:
    assert owner is FedAvg or owner.__bases__ == (FedAvg,)
    assert "__dataclass_params__" in vars(owner) and vars(owner)["__dataclass_params__"].frozen
    assert owner.__module__ == f"fl_ddp.methods.{owner.__name__.lower()}"
    assert [each.__name__ for each in METHODS.values() if each.__module__ == owner.__module__] == [owner.__name__]


@pytest.mark.parametrize("owner", METHODS.values(), ids=METHODS)
def test_neutral_names_coefficients_of_the_method_itself(owner: type[FedAvg]) -> None:
    assert set(owner.neutral or {}) <= {each.name for each in dataclasses.fields(owner)} - {"model", "weights"}


@pytest.mark.parametrize("owner", METHODS.values(), ids=METHODS)
def test_method_names_its_source_and_documents_its_fields(owner: type[FedAvg]) -> None:
    source = inspect.getdoc(inspect.getmodule(owner)) or ""
    assert re.search(r"\b(19|20)\d\d\b", source) and re.search(r"arXiv\W+\d{4}\.\d{4,5}|et al\.", source)
    described = inspect.cleandoc(vars(owner)["__doc__"] or "")
    own = [each.name for each in dataclasses.fields(owner) if each.name in vars(owner).get("__annotations__", {})]
    assert [name for name in own if not re.search(rf"^ +{name}: \S", described, re.MULTILINE)] == []


@pytest.mark.parametrize("owner", METHODS.values(), ids=METHODS)
def test_method_file_is_short(owner: type[FedAvg]) -> None:
    file = Path(inspect.getfile(owner))
    assert len(_lines_of_code(file.read_text(encoding="utf-8"))) <= MOST_LINES


def _lines_of_code(text: str) -> set[int]:
    """Numbers of the lines that hold more than a docstring or a comment."""
    layout = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    lines: set[int] = set()
    fresh = True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        docstring = fresh and token.type == tokenize.STRING
        if token.type not in layout and not docstring:
            lines.update(range(token.start[0], token.end[0] + 1))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            fresh = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    return lines
