"""The command: torchrun --nproc_per_node=N -m fl_ddp.main, or srun python, or python alone, or fl-ddp, for one rank."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from fl_ddp.host.interrupt import die_with_launcher, listening
from fl_ddp.ranks.slurm import rank_variables


def main(argv: Sequence[str] | None = None) -> int:
    """Run what the command line asks for.

    Returns:
        exit code: 0, 1 (the run failed), 2 (the input cannot be run) or 3 (another rank is lost).
    """
    die_with_launcher()
    with listening() as stop:
        stop.nothing_to_save = True
        os.environ.update(rank_variables(os.environ))
        # importing torch takes seconds, which neither a signal nor the launcher's death should have to wait for
        from fl_ddp.worker import work

        return work(sys.argv[1:] if argv is None else argv, stop)


def command() -> NoReturn:
    """Do what the command line asks for, and end the process."""
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    # In order it takes a second, in which torchrun kills this rank for another's exit code, or a broken group aborts.
    os._exit(code)


if __name__ == "__main__":
    command()
