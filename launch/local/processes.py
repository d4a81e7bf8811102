"""Commands on this machine, one or several at once, each a process of its own that writes into a log."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType

_ENOUGH = 3
"""Ctrl-C so often kills what runs: it may be where no signal is heard."""


class Stop:
    """Ctrl-C, SIGTERM and the end of the terminal, told to the commands that are running; no other starts after them.

    Attributes:
        asked: whether one of them came.
    """

    def __init__(self) -> None:
        """Listen within a with block, in the main thread only."""
        self.asked = False
        self._running: set[subprocess.Popen[bytes]] = set()
        self._interrupts = 0

    def __enter__(self) -> Stop:
        stops = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup has it ignored
            stops.append(signal.SIGHUP)
        self._before = {number: signal.signal(number, self._receive) for number in stops}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> int | None:
        """Run a command to its end, or to this process's; several threads may do so at once.

        Args:
            command: program, by its path, and arguments.
            log: file to which all it prints is added.
            environment: added to this process's.

        Returns:
            exit code; None if a stop came before the command could hear of it.
        """
        if self.asked:
            return None
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            env = {**os.environ, **environment}
            child = [sys.executable, "-m", "launch.local.child", str(os.getpid()), *command]
            # In a session of its own a terminal's Ctrl-C reaches it once: through this process.
            with subprocess.Popen(child, stdout=file, stderr=file, start_new_session=True, env=env) as running:
                self._running.add(running)
                if self.asked:  # the signal may have come before this one was in the set
                    running.send_signal(signal.SIGTERM)
                code = running.wait()  # in the thread that started it, whose end the kernel takes for the launcher's
            self._running.discard(running)
        stopped = (signal.SIGINT, signal.SIGTERM, *([signal.SIGKILL] if self._interrupts >= _ENOUGH else []))
        return None if self.asked and -code in stopped else code

    def ask(self, number: int = signal.SIGTERM) -> None:
        """Stop what is running as a signal does."""
        self.asked = True
        for each in tuple(self._running):
            each.send_signal(number)

    def _receive(self, number: int, _: FrameType | None) -> None:
        if number == signal.SIGHUP:  # the shell and the kernel may both send it
            if not self.asked:
                _say_nothing_more()
                self.ask()
            return
        if not self._running and self.asked:
            os._exit(128 + number)
        self._interrupts += number == signal.SIGINT
        self.ask(signal.SIGKILL if self._interrupts >= _ENOUGH else number)


def _say_nothing_more() -> None:
    """Have what is printed go nowhere, but for files: a terminal that was closed takes nothing."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for number in (1, 2):
        with suppress(OSError):  # it may be closed
            if stat.S_ISCHR(os.fstat(number).st_mode):
                os.dup2(nowhere, number)
    os.close(nowhere)
