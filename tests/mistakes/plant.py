"""Plant the known mistakes, each in a copy of the checkout of its own, and see a test fail that should know of it.

    python tests/mistakes/plant.py --control --out tests/mistakes/caught.md    all, with their table
    python tests/mistakes/plant.py --only "Fisher at the"                      those with these words
    python tests/mistakes/plant.py --new --out tests/mistakes/caught.md        those that the table lacks
    python tests/mistakes/plant.py --sample 20                                 some, other ones for each commit

A mistake is caught if a test fails. One that only keeps the program from being imported, or makes Python stumble, is
none that anybody would overlook, and is refused.
"""

from __future__ import annotations

import argparse
import faulthandler
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import pytest
from hypothesis import Phase, settings
from known import Mistake, known_mistakes

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
LONGEST = 300
"""Seconds that one test may take."""
STACKS = 6000
"""Letters of a test's output that show where one that does not end stood."""
STUMBLES = (NameError, TypeError, AttributeError, ImportError)
"""How a test fails where Python stumbles over the program."""
IMPORTED = [
    "torch", "torch.func", "torch._dynamo", "torch._inductor.custom_graph_pass", "torch.utils.tensorboard", "pytest",
    "hypothesis", "matplotlib.figure", "matplotlib.backends.backend_agg", "sklearn.datasets", "safetensors.torch",
]  # fmt: skip
"""What tests take long to import, the program aside."""
COMMAND = "python tests/mistakes/plant.py --control --out tests/mistakes/caught.md"
NOTHING = "NOTHING"
HEAD = ("mistake", "file", "caught by", "seconds", "commit")


class Outcome(NamedTuple):
    """What came of a mistake.

    Attributes:
        caught: whether a test failed that should know.
        by: the first test that failed, or what happened in its place.
        seconds: that the tests took.
    """

    caught: bool
    by: str
    seconds: float


def git(root: Path, *words: str) -> str:
    """What git says of a checkout."""
    return subprocess.run(("git", "-C", str(root), *words), capture_output=True, text=True, check=True).stdout


def copied(root: Path, folder: Path) -> None:
    """Copy what git tracks, as it is in the checkout now."""
    for name in git(root, "ls-files", "-z").split("\0"):
        if name and (root / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(root / name, folder / name)


class FirstFailure:
    """A plugin of pytest that keeps the first test that fails, and lets hypothesis look for no simpler example.

    Attributes:
        name: of the test; empty if none has failed, but for what comes before tests.
        error: that it failed with.
    """

    def __init__(self) -> None:
        self.name = ""
        self.error: BaseException | None = None

    def pytest_collection(self) -> None:
        """Called by pytest when conftest.py has chosen a profile."""
        chosen = settings.get_profile(settings.get_current_profile_name())
        settings.register_profile("first", chosen, phases=(Phase.explicit, Phase.generate))
        settings.load_profile("first")

    def pytest_exception_interact(
        self, node: pytest.Item | pytest.Collector, call: pytest.CallInfo[object], report: object
    ) -> None:
        """Called by pytest for each error."""
        if call.when == "call" and call.excinfo and not self.name:
            self.name, self.error = node.nodeid, call.excinfo.value


class Ended(NamedTuple):
    """How pytest ended: its exit code, the first test that failed and its error, and its output."""

    code: int
    failed: str
    error: BaseException | None
    output: str


def tested(copy: Path, words: Sequence[str]) -> Ended:
    """Run tests in a copy until one fails. For a process of its own."""
    os.chdir(copy)
    sys.path.insert(0, str(copy))  # before an installed one
    os.environ["PYTHONPATH"] = str(copy)  # for what tests start
    named = ("-m", "") if any("::" in word for word in words) else ()  # a test that is named may be a slow one
    options = (
        "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:faulthandler", "--hypothesis-seed", "0",
        "--timeout", str(LONGEST),
    )  # fmt: skip
    first = FirstFailure()
    with (copy / "output").open("w+", encoding="utf-8") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
        code = int(pytest.main([*options, *named, *words], [first]))
        sys.stdout.flush()
        file.seek(0)
        output = file.read()
    packages = [sys.modules[name].__file__ for name in ("fl_ddp", "launch") if name in sys.modules]
    if others := [place for place in packages if not str(place).startswith(str(copy))]:
        return Ended(3, "", None, f"the tests import {others}, not the copy")
    return Ended(code, first.name, first.error, output)


def judged(end: Ended) -> tuple[bool, str]:
    """Whether a mistake was caught, and by which test; else what happened."""
    if end.code == 0:
        return False, "no test fails"
    if end.code != 1 or not end.failed:
        return False, f"the tests do not run (pytest ends with {end.code}): {end.output.strip()[-300:]!r}"
    if isinstance(end.error, STUMBLES):
        return False, f"{end.failed} stumbles: {end.error!r}"
    if str(end.error).startswith("Timeout"):
        return False, f"{end.failed} does not end: {end.error!r}, with all threads at {end.output[-STACKS:]}"
    return True, end.failed


def planted(root: Path, mistake: Mistake) -> Outcome:
    """Run the tests that should know of a mistake in a copy that has it. For a process of its own, which ends."""
    with os.fdopen(os.dup(2), "w") as stderr:
        faulthandler.dump_traceback_later(3 * LONGEST, exit=True, file=stderr)
        try:
            return _planted(root, mistake)
        finally:
            faulthandler.dump_traceback_later(LONGEST, exit=True)  # threads that a test left


def _planted(root: Path, mistake: Mistake) -> Outcome:
    with TemporaryDirectory(prefix="mistake-") as folder:
        copy = Path(folder).resolve()
        copied(root, copy)
        file = copy / mistake.file
        file.write_text(mistake.planted_in(file.read_text(encoding="utf-8")), encoding="utf-8")
        start = time.monotonic()
        caught, by = judged(tested(copy, mistake.tests))
        return Outcome(caught, by, time.monotonic() - start)


def unplanted(root: Path, words: Sequence[str]) -> str:
    """What fails of tests without any mistake; empty if nothing does. For a process of its own."""
    with TemporaryDirectory(prefix="mistake-") as folder:
        copy = Path(folder).resolve()
        copied(root, copy)
        end = tested(copy, words)
        return end.output if end.code else ""


def lists_of_tests(mistakes: Sequence[Mistake]) -> list[list[str]]:
    """All their tests: those that need no options together, and each list that has options."""
    plain = dict.fromkeys(word for m in mistakes if not _has_options(m) for word in m.tests)
    others = dict.fromkeys(m.tests for m in mistakes if _has_options(m))
    return [*([list(plain)] if plain else []), *map(list, others)]


def _has_options(mistake: Mistake) -> bool:
    return any(word.startswith("-") for word in mistake.tests)


def sampled(mistakes: Sequence[Mistake], number: int, seed: str) -> list[Mistake]:
    """Some mistakes that a seed decides, in their order."""
    by_hash = sorted(mistakes, key=lambda m: hashlib.sha256(f"{seed} {m.what}".encode()).digest())
    return [mistake for mistake in mistakes if mistake in by_hash[:number]]


def rows_of(table: Path) -> dict[str, list[str]]:
    """The rows of a table by mistake."""
    lines = table.read_text(encoding="utf-8").splitlines() if table.exists() else []
    cells = [line.strip("| ").replace("\\|", "\0").split(" | ") for line in lines if line.startswith("| ")][2:]
    return {row[0]: [cell.replace("\0", "\\|") for cell in row] for row in cells}


def write_table(table: Path, known: Sequence[Mistake], outcomes: Mapping[str, Outcome], commit: str) -> None:
    """Write what caught each mistake; rows of mistakes that were not planted now stay, those of unknown ones go."""
    rows = rows_of(table)
    for mistake in known:
        if outcome := outcomes.get(mistake.what):
            by = outcome.by.replace("|", "\\|") if outcome.caught else NOTHING
            rows[mistake.what] = [mistake.what, mistake.file, by, f"{outcome.seconds:.0f}", commit]
    listed = [rows[mistake.what] for mistake in known if mistake.what in rows]
    seconds = sum(int(row[3]) for row in listed)
    text = [
        "# What catches each known mistake",
        "",
        f"`{COMMAND}`:",
        f"{len(listed)} mistakes, {sum(row[2] != NOTHING for row in listed)} caught, {seconds} s of tests.",
        "The commit is the one that each was planted into.",
        "",
        *(f"| {' | '.join(row)} |" for row in (HEAD, ["---"] * len(HEAD), *listed)),
    ]
    table.write_text("\n".join(text) + "\n", encoding="utf-8")


def workers(jobs: int) -> ProcessPoolExecutor:
    """Processes of one task each, forked where what takes long to import is there already, but for the program."""
    os.environ["OMP_NUM_THREADS"] = os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = str(
        max(len(os.sched_getaffinity(0)) // jobs, 1)
    )
    context = get_context("forkserver")
    context.set_forkserver_preload(IMPORTED)
    return ProcessPoolExecutor(jobs, context, max_tasks_per_child=1)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Plant known mistakes and see tests fail.")
    parser.add_argument("--sample", type=int, default=0, help="plant so many, 0 for all")
    parser.add_argument("--seed", help="of the sample; the checkout's commit if not given")
    parser.add_argument("--only", default="", help="plant those that have these words in their area, title or file")
    parser.add_argument("--new", action="store_true", help="plant those alone that --out lacks, with --control")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time")
    parser.add_argument("--control", action="store_true", help="first see that without a mistake the tests pass")
    parser.add_argument("--out", type=Path, help="table to write the outcomes in")
    return parser.parse_args()


def main() -> int:
    """Plant what is asked for; 1 if one is not caught."""
    given = options()
    known = known_mistakes(HERE / "lines")
    mistakes = [m for m in known if given.only in f"{m.area}: {m.what} {m.file}"]
    if given.new:
        rows = rows_of(given.out)
        mistakes = [m for m in mistakes if rows.get(m.what, ["", ""])[1] != m.file]
    commit = git(ROOT, "rev-parse", "--short=10", "HEAD").strip()
    if given.sample:
        seed = given.seed or commit
        mistakes = sampled(mistakes, given.sample, seed)
        print(f"{len(mistakes)} of {len(known)} mistakes, drawn with the seed {seed}", flush=True)
    start, outcomes = time.monotonic(), dict[str, Outcome]()
    with workers(given.jobs) as pool:
        lists = lists_of_tests(mistakes) if given.control or given.new else []
        if wrong := "".join(pool.map(partial(unplanted, ROOT), lists)):
            print(f"without any mistake:\n{wrong}")
            return 1
        for mistake, outcome in zip(mistakes, pool.map(partial(planted, ROOT), mistakes), strict=True):
            outcomes[mistake.what] = outcome
            verdict = "caught" if outcome.caught else "NOT CAUGHT"
            print(f"{verdict:10} {outcome.seconds:4.0f} s  {mistake.area}: {mistake.what}: {outcome.by}", flush=True)
    missed = [name for name, outcome in outcomes.items() if not outcome.caught]
    print(f"{len(outcomes) - len(missed)} of {len(outcomes)} caught in {time.monotonic() - start:.0f} s")
    if given.out:
        write_table(given.out, known, outcomes, commit)
    return 1 if missed or not outcomes else 0


if __name__ == "__main__":
    sys.exit(main())
