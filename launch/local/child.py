"""Becomes a command that the kernel ends when its launcher dies: python -m launch.local.child LAUNCHER COMMAND ..."""

from __future__ import annotations

import os
import sys

from fl_ddp.host.interrupt import die_with

if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    os.execv(sys.argv[2], sys.argv[2:])
