"""How every launcher ends: what cannot be done is told in one line, never by a traceback."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable

from fl_ddp.errors import ConfigError, RunError

_OF_THE_MACHINE = (errno.ENOSPC, errno.EDQUOT, errno.ENAMETOOLONG, errno.EROFS)
_INTERRUPTED = 130
"""What shells have for a command that SIGINT ended."""


def exit_code(command: str, work: Callable[[], int]) -> int:
    """Do what a command line asks for.

    Args:
        command: name that errors are told under.
        work: reads the command line and does it; its own exit code is 0, or 1 where a run failed or was stopped.

    Returns:
        that of the work; 1 for a RunError, 2 for a ConfigError: the input cannot be run, or 130 for a Ctrl-C.
    """
    try:
        return work()
    except (ConfigError, RunError) as error:
        print(f"{command}: error: {error}", file=sys.stderr)
        return error.exit_code
    except OSError as error:
        if error.errno not in _OF_THE_MACHINE:
            raise
        print(f"{command}: error: {error.filename or 'cannot write'}: {error.strerror}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{command}: interrupted", file=sys.stderr)
        return _INTERRUPTED
