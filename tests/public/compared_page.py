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
PAGE, TEMPLATE = (HERE.parents[1] / "docs" / name for name in ("compared.md", "compared.template.md"))
MISSING = {
    "FedKA": "no public code of it was found; it has closed forms and the reference simulator",
    "FilVer": "no public code of it was found; it has closed forms and the reference simulator",
    "LocalOnly": "it is local training and nothing else",
}
"""Why methods are not compared."""


def page() -> str:
    """The whole text."""
    parts = {"table": _table(), "missing": _missing(), "code": _code()}
    return TEMPLATE.read_text(encoding="utf-8") % {name: "\n".join(lines) for name, lines in parts.items()}


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
