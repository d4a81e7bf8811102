"""Writes docs/compared.md: which methods are compared with which public code, by which options, and what differs there.

PYTHONPATH=tests/public python tests/public/compared_page.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from otherwise import IMPLEMENTATIONS, OTHERWISE
from public_cases import CASES

from fl_ddp.config import registry

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs/compared.md"
TEXT = """# Compared with public implementations

A method is written twice here, as users run it and as a slow simulator that is written to be read ([tests/reference](../tests/reference)); but who
misreads a paper misreads it twice. So methods are also compared with what other people's code computes. Their servers, clients, losses and
loops run unchanged on a small federation (four clients of unequal sizes, 49 parameters, three rounds or three tasks of three rounds, most with
partial cohorts, in double precision), and what they leave after each round is kept in [tests/public/numbers](../tests/public/numbers). A run of
this program has to leave the same to 1e-12, theta and what server and clients remember: `pytest -m 'slow or not slow' tests/public`. What is
given to their code in place of its data sets and command line, each [driver](../tests/public/drivers) says, with the command that makes its
numbers anew.

{table}

## Methods that are not compared

{missing}

## The code that was run

{code}
"""
MISSING = {
    "LocalOnly": "nothing but local training",
}
"""Why methods are not compared."""


def page() -> str:
    """The whole text."""
    return TEXT.format(table="\n".join(_table()), missing="\n".join(_missing()), code="\n".join(_code()))


def _table() -> Iterator[str]:
    """A row for each method and implementation, methods in alphabetic order."""
    yield "| method | computes the same as in | with | what is otherwise there |"
    yield "|---|---|---|---|"
    told: dict[tuple[str, str], list[str]] = {}
    for name, case in CASES.items():
        method, file = str(case.options["method"]), name.partition(": ")[0]
        told.setdefault((method, file), []).append(_options(case.options))
    for (method, file), options in sorted(told.items(), key=lambda item: (item[0][0].lower(), item[0][1])):
        theirs = IMPLEMENTATIONS[file]
        by = f"{theirs.name} (its authors' code)" if theirs.official else theirs.name
        each = "; ".join(dict.fromkeys(filter(None, options)))
        yield f"| `{method}` | {by} | {each} | {OTHERWISE.get((method, file), '')} |"


def _options(options: object) -> str:
    """Of the method, as on a command line."""
    assert isinstance(options, dict)
    own = {key: value for key, value in options.items() if key.startswith("method.")}
    return " ".join(f"`--{key} {value}`" for key, value in own.items())


def _missing() -> Iterator[str]:
    for name in registry.known("method"):
        if name not in {case.options["method"] for case in CASES.values()}:
            yield f"- `{name}`: {MISSING[name]}."


def _code() -> Iterator[str]:
    for file, theirs in IMPLEMENTATIONS.items():
        of = json.loads((HERE / "numbers" / f"{file}.json").read_text(encoding="utf-8"))
        yield f"- [{theirs.name}]({of['origin']}/tree/{of['commit']}), commit {of['commit'][:10]}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
