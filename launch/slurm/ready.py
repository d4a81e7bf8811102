"""What a script in slurm/ does before its run: python -m launch.slurm.ready FOLDER [--option ...]."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from fl_ddp.config.command_line import tokens
from fl_ddp.errors import ConfigError
from launch.exit_code import exit_code
from launch.run.trial import clear

_INSTEAD = {
    "name": "NAME, the script's first word",
    "out": "OUT=FOLDER before sbatch",
    "resume": "NAME: what is there goes on",
}
"""Options of fl_ddp.main that the script gives itself, and what the user gives in their place."""


def make_ready(folder: Path, options: Sequence[str]) -> None:
    """See that options leave a run in its folder, and remove one in which it was stopped before it had begun.

    Args:
        folder: of the run; it need not be there.
        options: of fl_ddp.main.

    Raises:
        ConfigError: an option leads elsewhere or a word belongs to none, or the folder is not that of a run.
    """
    for each in tokens(options):
        if each.key in _INSTEAD:
            raise ConfigError(each.where, f"is not the user's to give here; give {_INSTEAD[each.key]}")
    clear(folder, "NAME")


def _main(folder: str, *options: str) -> int:
    make_ready(Path(folder), options)
    return 0


if __name__ == "__main__":
    sys.exit(exit_code("sbatch script", lambda: _main(*sys.argv[1:])))
