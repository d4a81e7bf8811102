"""What is printed; a reader that has gone away, as in `| head`, or a terminal that was closed stops no run."""

from __future__ import annotations

import errno
import os
import sys


def say(text: str) -> None:
    """Print at once, or to nowhere if nobody reads any more."""
    try:
        print(text, flush=True)
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.EIO):
            raise
        # what is left in the buffer must have somewhere to go, too
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def on_terminal() -> bool:
    """Whether a bar would be seen; on a terminal without size, as some launchers make, it would not."""
    if sys.stdout is None:  # as contextlib.redirect_stdout(None) leaves it, and Windows without a console
        return False
    return sys.stdout.isatty() and os.get_terminal_size(sys.stdout.fileno()).lines > 0
