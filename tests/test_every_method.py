"""The conformance table: every method in fl_ddp/methods joins it by existing."""

from __future__ import annotations

import dataclasses
import inspect
import io
import json
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import conformance
import pytest
from conformance import checks_of

from fl_ddp.methods.fedavg import FedAvg

Findings = dict[str, dict[str, str]]

METHODS = conformance.offered()
COMPILED_SLOWLY = ("FedCL", "FedCurv", "FedDyn", "FedNova")
"""Methods that take long to compile, and have in them what others that are compiled have."""
MOST_LINES = 80
"""Lines of code in a method's file, docstrings, comments and blank lines aside."""

CAUGHT = {
    "LooksAtNeighbours": {"any_grouping", "any_order", "padded_lanes", "two_ranks"},
    "CountsPaddedLanes": {"any_grouping", "padded_lanes"},
    "WritesInPlace": {"state_is_not_written_in_place"},
    "RemembersElsewhere": {"kill_and_resume"},
    "NearlyNeutral": {"neutral_is_fedavg"},
    "ForgetsItsCoefficient": {"default_is_not_fedavg"},
    "Grows": {"state_keeps_its_shapes", "no_recompilation"},
}
"""Which checks find the mistakes of broken_methods.py."""


@pytest.fixture(scope="session")
def findings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Findings:
    """What two gloo ranks found wrong with each method, by check; an empty text where nothing is.

    They make the checks alone that a test of this session asks for.
    """
    folder = tmp_path_factory.mktemp("conformance")
    wanted: dict[str, list[str]] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and "findings" in item.fixturenames:
            name, check = (item.callspec.params.get(key) for key in ("name", "check"))
            wanted.setdefault(str(name), []).extend([str(check)] if check else CAUGHT[str(name)])
    (folder / "wanted.json").write_text(json.dumps(wanted), encoding="utf-8")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2"]
    done = subprocess.run([*torchrun, conformance.__file__, str(folder)], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-8000:]
    found: Findings = {}
    for file in folder.glob("findings.*.json"):
        found |= json.loads(file.read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize(
    ("name", "check"),
    [
        pytest.param(
            name,
            check.__name__,
            marks=[pytest.mark.slow] if check in conformance.COMPILED and name in COMPILED_SLOWLY else [],
        )
        for name, owner in METHODS.items()
        for check in checks_of(owner)
    ],
)
def test_method_passes(findings: Findings, name: str, check: str) -> None:
    assert not findings[name][check], f"{name}, {check}: {findings[name][check]}"


@pytest.mark.parametrize("name", conformance.broken())
def test_table_catches_the_mistake_of(findings: Findings, name: str) -> None:
    assert {check for check, wrong in findings[name].items() if wrong} >= CAUGHT[name]


def test_every_check_of_the_table_can_fail() -> None:
    # a checkpoint that loses bits and a compiled step that is far off would be the engine's mistakes, not a method's
    of_the_engine = {"checkpoint_round_trip", "compiled_is_close"}
    checks = {check.__name__ for check in (*conformance.EAGER, *conformance.COMPILED)}
    assert checks - of_the_engine == set().union(*CAUGHT.values())


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
