"""A note of how a process of a run failed, for the launcher that asks for one: what it prints need not be read."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from pathlib import Path
from socket import gethostname

from fl_ddp.errors import RunError
from fl_ddp.host.atomic_file import write_text, write_text_once

NOTE = "FL_DDP_FAILURE_NOTE"
"""Environment variable that names the note's file; all ranks of a run may be told the same one."""


def leave_note(code: int, why: str | None, *, to_blame: bool) -> None:
    """Leave a note of this process's failure, if its launcher asks for one.

    Args:
        code: that the process will exit with.
        why: it failed, in one line; None where another rank says it.
        to_blame: whether the failure is this process's own; what another one had to say before is kept if it is not.
    """
    place = os.environ.get(NOTE)
    if not place:
        return
    text = json.dumps({"code": code, "why": why}) + "\n"
    with suppress(OSError, RunError):  # a full disk may be what it failed of
        write = write_text if to_blame else write_text_once
        write(Path(place), text, writer=f".{gethostname()}.{os.getpid()}")
