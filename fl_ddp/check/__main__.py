"""The command: python -m fl_ddp.check my_method.py:MyMethod [--method.option value ...]."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from fl_ddp.check.helper import warm_up


def main(argv: Sequence[str] | None = None) -> int:
    """Check a method and print what holds.

    Returns:
        exit code: 0 (nothing fails), 1 (something does not hold) or 2 (the input cannot be run).
    """
    words = sys.argv[1:] if argv is None else argv
    wants_help = bool({"-h", "--help"} & set(words))
    if not wants_help:
        warm_up()
    # importing torch takes seconds, in which the helpers' process imports it, too
    from fl_ddp.check.candidate import Case
    from fl_ddp.check.judge import Judge, NotRunError
    from fl_ddp.check.rules import RULES
    from fl_ddp.check.words import help_text, read, report
    from fl_ddp.errors import ConfigError, Told
    from fl_ddp.host.stdout import say

    if wants_help:
        say(help_text())
        return 0
    try:
        settings = read(words)
    except ConfigError as error:
        return Told.of(error).say()
    with tempfile.TemporaryDirectory(prefix="fl_ddp-check-") as folder, Judge(begins=_progress) as judge:
        try:
            findings = list(judge.findings(Case("method", settings, Path(folder)), [rule.name for rule in RULES]))
        except NotRunError as error:
            return error.told.say()
    return report(findings)


def _progress(check: str) -> None:
    """Say what goes on, where somebody looks."""
    if sys.stderr.isatty():
        print(f"fl_ddp: checking {check} ...", file=sys.stderr, flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
