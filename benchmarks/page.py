"""Writes docs/results.md from docs/results.template.md and the files in benchmarks/results.

    python benchmarks/page.py            writes the page
    python benchmarks/page.py --check    says what would change, and fails if anything would

README.md must have what docs/speed.template.md gives; both commands say so if it has not. The directives of templates
are listed in benchmarks/directives.py.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from directives import Directives
from template import fill

from fl_ddp.errors import ConfigError
from launch.exit_code import exit_code

ROOT = Path(__file__).parents[1]
_NOTICE = "<!-- Written by `python benchmarks/page.py` from results.template.md; edit that. -->\n\n"


@dataclass(frozen=True)
class Pages:
    """What the files give.

    Attributes:
        results: the text of docs/results.md.
        speed: what README.md must say.
    """

    results: str
    speed: str


def pages(results: Path = ROOT / "benchmarks" / "results", docs: Path = ROOT / "docs") -> Pages:
    """Fill all templates.

    Args:
        results: folder of the files.
        docs: folder of the templates.

    Raises:
        ConfigError: a template asks for what no file has, or has a typed number; or no template shows a file.
    """
    directives = Directives(results)
    filled = []
    for name in ("results.template.md", "speed.template.md"):
        text = (docs / name).read_text(encoding="utf-8")
        filled.append(fill(text, directives, f"docs/{name}"))
    unused = {path.stem for path in results.glob("*.json")} - directives.files
    if unused:
        raise ConfigError("docs/results.template.md", f"nothing shows {', '.join(sorted(unused))}")
    return Pages(_NOTICE + filled[0], filled[1])


def says(text: str, passage: str) -> bool:
    """Whether a text has a passage, however its lines are broken."""
    return " ".join(passage.split()) in " ".join(text.split())


def main(line: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page is another")
    options = parser.parse_args(line)
    return exit_code("page", lambda: _answer(options.check))


def _answer(check: bool) -> int:
    page, written = ROOT / "docs" / "results.md", pages()
    changes = list(
        difflib.unified_diff(
            page.read_text(encoding="utf-8").splitlines(keepends=True) if page.exists() else [],
            written.results.splitlines(keepends=True),
            "docs/results.md",
            "what the files give",
        )
    )
    if not check:
        page.write_text(written.results, encoding="utf-8")
    sys.stdout.writelines(changes)
    agrees = says((ROOT / "README.md").read_text(encoding="utf-8"), written.speed)
    if not agrees:
        print(f"README.md does not say:\n{written.speed}", file=sys.stderr)
    return 0 if agrees and not (check and changes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
