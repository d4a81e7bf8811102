"""What an earlier version of fl_ddp called the work of a Slurm job; its jobs may still be in the queue, as pickles."""

from __future__ import annotations

import sys

from fl_ddp.errors import ConfigError, error_line


def __getattr__(name: str) -> object:
    """End a job of that version, whose pickle asks for its Rank before it asks for anything else.

    Raises:
        SystemExit: it does.
        AttributeError: it is another name that is asked for.
    """
    if name != "Rank":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    said = "this job was submitted by an earlier version of fl_ddp; cancel it and submit the run again"
    print(error_line(said), file=sys.stderr, flush=True)
    raise SystemExit(ConfigError.exit_code)
