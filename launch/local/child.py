"""Becomes a command that the kernel ends when its launcher dies: python -m launch.local.child LAUNCHER COMMAND ..."""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def become(launcher: int, command: list[str]) -> None:
    """Replace this process by a command, unless the launcher is gone already.

    Args:
        launcher: process id of this process's parent; a kill -9 would leave the command running.
        command: program and arguments; what it starts in turn must see to its own end.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != launcher:
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    become(int(sys.argv[1]), sys.argv[2:])
