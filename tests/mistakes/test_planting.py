"""The known mistakes are still mistakes of this program, and what is planted is judged by a test that fails."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from cases import CASES
from known import REFERENCE, Mistake, known_mistakes
from plant import HERE, ROOT, Ended, Outcome, judged, rows_of, sampled, write_table

MISTAKES = known_mistakes(HERE / "lines")
AREAS = {
    "methods", "importance", "engine", "cohort", "partitions", "datasets", "evaluation", "records", "resume", "results",
    "orderings", "tasks", "notebook",
}  # fmt: skip
FEWEST = 80


@cache
def functions_of(file: str) -> set[str]:
    """Names of a test file's functions."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@cache
def planted() -> list[str]:
    """Each mistake's file with it, in the order of all."""
    return [mistake.planted_in((ROOT / mistake.file).read_text(encoding="utf-8")) for mistake in MISTAKES]


def test_every_mistake_can_still_be_planted() -> None:
    assert all(planted())


def test_no_mistake_has_a_name_that_is_not_there(tmp_path: Path) -> None:
    for number, (mistake, wrong) in enumerate(zip(MISTAKES, planted(), strict=True)):
        (tmp_path / f"{number}.py").write_text(f"{wrong}# {mistake.what}\n", encoding="utf-8")
    words = ("ruff", "check", "--isolated", "--select", "F821", "--output-format", "concise", "--no-cache", tmp_path)
    found = subprocess.run(words, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_the_tests_that_should_know_are_there() -> None:
    for mistake in MISTAKES:
        for word in mistake.tests:
            file, _, name = word.partition("::")
            if word.startswith(REFERENCE):
                assert word.removeprefix(REFERENCE)[1:-1] in CASES, mistake.what
            elif word.startswith("tests/"):
                assert not name or name.partition("[")[0] in functions_of(file), f"{mistake.what}: {word}"


def test_there_are_enough_of_all_areas_and_none_twice() -> None:
    assert len(MISTAKES) >= FEWEST and {mistake.area for mistake in MISTAKES} == AREAS
    assert [what for what, times in Counter(m.what for m in MISTAKES).items() if times > 1] == []
    assert [line for line, times in Counter((m.file, m.wrong) for m in MISTAKES).items() if times > 1] == []


def test_the_table_has_all_of_them_caught() -> None:
    rows = rows_of(HERE / "caught.md")
    assert list(rows) == [mistake.what for mistake in MISTAKES]
    for mistake in MISTAKES:
        caught_by = rows[mistake.what][2].partition("::")[0]
        assert any(word.startswith(caught_by) for word in mistake.tests), mistake.what


LINE = "return a + b"


@pytest.mark.parametrize(
    ("source", "wrong", "message"),
    [
        ("def f(a, b):\n    return a * b\n", "return a - b", "0 times"),
        ("def f(a, b):\n    return a + b\n    return a + b\n", "return a - b", "2 times"),
        ("def f(a, b):\n    return a + b\n", "return a -", "no program"),
        ("def f(a, b):\n    return a + b\n", "return (a + b)", "the same program"),
        ("class A:\n    @cache\n    def f(self, a, b):\n        return a + b\n", "return a -", "no program"),
        ("class A:\n    @cache\n    def f(self, a, b):\n        return a + b\n", "return (a + b)", "the same program"),
    ],
)
def test_what_cannot_be_planted_is_told(source: str, wrong: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Mistake("area", "wrong sign", ("tests",), "sum.py", LINE, wrong).planted_in(source)


def test_a_mistake_is_planted_where_its_line_is() -> None:
    source = "def f(a, b):\n    if a:\n        return a + b\n    return b\n"
    mistake = Mistake("area", "wrong sign", ("tests",), "sum.py", LINE, "return a - b")
    assert mistake.planted_in(source) == source.replace("a + b", "a - b")


@pytest.mark.parametrize(
    ("code", "failed", "error", "caught"),
    [
        (1, "test_b", AssertionError(), True),
        (1, "test_b", ValueError("no"), True),
        (0, "", None, False),
        (1, "test_b", UnboundLocalError(), False),
        (1, "test_b", pytest.fail.Exception("Timeout (>300.0s) from pytest-timeout."), False),
        (1, "", None, False),
        (2, "", ImportError(), False),
        (5, "", None, False),
    ],
    ids=str,
)
def test_only_a_test_that_fails_catches(code: int, failed: str, error: BaseException | None, caught: bool) -> None:
    found, by = judged(Ended(code, failed, error, ""))
    assert found == caught and (not caught or by == failed)


def test_of_a_test_without_an_end_it_is_told_where_it_stood() -> None:
    late = pytest.fail.Exception("Timeout (>300.0s) from pytest-timeout.")
    caught, by = judged(Ended(1, "test_b", late, "x" * 10**6 + "\nFile mine.py, line 3"))
    assert not caught and by.startswith("test_b does not end") and by.endswith("File mine.py, line 3")
    assert len(by) < 10**4


def test_bytes_that_differ_are_not_compared_line_by_line_on_ci_either(tmp_path: Path) -> None:
    """Of a picture's that takes minutes, so that a mistake in one was told as a test without an end."""
    file = tmp_path / "test_pictures.py"
    file.write_text("def test_it():\n    assert bytes(40) == bytes(range(40))\n", encoding="utf-8")
    words = ("-q", "-n", "0", "-p", "no:cacheprovider", "-p", "conftest", "-c", ROOT / "pyproject.toml", file)
    paths = os.pathsep.join(map(str, (ROOT, HERE.parent)))
    told = subprocess.run(
        (sys.executable, "-m", "pytest", *words),
        env={**os.environ, "CI": "true", "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 1 and "bytes(40)" in told.stdout, told.stdout + told.stderr
    assert "Full diff" not in told.stdout


def test_samples_are_other_ones_for_each_seed() -> None:
    one, again, other = (sampled(MISTAKES, 9, seed) for seed in ("one", "one", "other"))
    assert one == again != other and len(one) == len(set(one)) == 9
    assert sampled(MISTAKES, 10**6, "one") == MISTAKES


def test_a_table_keeps_the_rows_of_what_was_not_planted_again(tmp_path: Path) -> None:
    table = tmp_path / "caught.md"
    first, second, third = MISTAKES[:3]
    old = {each.what: Outcome(True, "tests/test_a.py::test[a|b]", 3.2) for each in (first, third)}
    write_table(table, MISTAKES[:3], old, "abc")
    write_table(table, MISTAKES[:2], {second.what: Outcome(False, "no test fails", 1)}, "def")
    assert rows_of(table) == {
        first.what: [first.what, first.file, "tests/test_a.py::test[a\\|b]", "3", "abc"],
        second.what: [second.what, second.file, "NOTHING", "1", "def"],
    }
