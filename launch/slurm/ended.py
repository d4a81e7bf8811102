"""Whether a run has ended as it was asked to: python -m launch.slurm.ended FOLDER [--option ...] says yes or no."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from fl_ddp.config.command_line import from_file, parse
from fl_ddp.host.stdout import say
from launch.exit_code import exit_code
from launch.run.stored import read_run
from launch.run.trial import ENDING


def has_ended(folder: Path, options: Sequence[str]) -> bool:
    """Whether a run has all rounds that options ask for, or has ended by their rule before.

    One that should go on further, and was stopped before it had begun to, has not.

    Args:
        folder: of the run; it need not be there.
        options: of fl_ddp.main, that the run was started with or went on with.

    Raises:
        ConfigError: an option is unknown or impossible, or a file is not what a run writes.
    """
    found = read_run(folder)
    if found is None or not found.ended:
        return False
    earlier, now = from_file(folder / "config.yaml"), parse((f"--resume={folder}", *options))
    same_rules = all(getattr(earlier, key) == getattr(now, key) for key in ENDING)
    return found.rounds >= now.rounds or (found.stopped and same_rules)


def _main(folder: str, *options: str) -> int:
    say("yes" if has_ended(Path(folder), options) else "no")
    return 0


if __name__ == "__main__":
    sys.exit(exit_code("ended", lambda: _main(*sys.argv[1:])))
