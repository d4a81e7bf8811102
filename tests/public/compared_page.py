"""Writes docs/compared.md: which methods are compared with which public code, by which options, and what differs there.

PYTHONPATH=tests/public python tests/public/compared_page.py
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from otherwise import NAMES, NOT_COMPARED, OTHERWISE
from public_cases import CASES
from public_numbers import NUMBERS

NUMBERS_THAT_ARE_RULES = ("method.compat_eps", "method.dampening", "method.every")
PAGE, TEMPLATE = (Path(__file__).parents[2] / "docs" / name for name in ("compared.md", "compared.template.md"))


def page() -> str:
    """The whole text."""
    parts = {"table": _table(), "missing": _missing()}
    return TEMPLATE.read_text(encoding="utf-8") % {name: "\n".join(lines) for name, lines in parts.items()}


def _table() -> Iterator[str]:
    """A row for each method and implementation, by name."""
    yield "| method | computes the same as | with options, in some case | what is otherwise there |"
    yield "|---|---|---|---|"
    told: dict[tuple[str, str], set[str]] = {}
    for name, case in CASES.items():
        rules = told.setdefault((str(case.options["method"]), name.partition(": ")[0]), set())
        rules |= {f"{key}={value}".lower() for key, value in case.options.items() if _is_rule(key, value)}
    for (method, file), rules in sorted(told.items(), key=lambda item: (item[0][0].lower(), NAMES[item[0][1]].lower())):
        by = ", ".join(f"`{rule.removeprefix('method.')}`" for rule in sorted(rules))
        yield f"| `{method}` | [{NAMES[file]}]({_link(file)}) | {by} | {OTHERWISE.get(method, {}).get(file, '')} |"


def _is_rule(key: str, value: object) -> bool:
    """Whether an option is more than a strength, which may be any."""
    if key == "method" or key.startswith("stream"):
        return False
    return isinstance(value, bool | str) or key in NUMBERS_THAT_ARE_RULES


@cache
def _link(file: str) -> str:
    """To the code that was run."""
    told = json.loads(next(NUMBERS.glob(f"*/{file}.json")).read_text(encoding="utf-8"))
    return f"{told['origin'].partition(',')[0]}/tree/{told['commit']}"


def _missing() -> Iterator[str]:
    for method, why in NOT_COMPARED.items():
        yield f"- `{method}`: {why}."


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
