"""One command after another on this machine, each a process of its own that writes into a log."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import FrameType, TracebackType


class Stop:
    """Ctrl-C and SIGTERM, handed on to the command that is running; no other is started after them.

    Attributes:
        asked: whether one of them came.
    """

    def __init__(self) -> None:
        """Listen within a with block, in the main thread only."""
        self.asked = False
        self._running: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Stop:
        self._before = {number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, command: Sequence[str], log: Path) -> int:
        """Run a command to its end.

        Args:
            command: program and arguments.
            log: file to which all it prints is added.

        Returns:
            exit code.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as file:
            # In a session of its own a terminal's Ctrl-C reaches it once: through this process.
            with subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True) as self._running:
                if self.asked:
                    self._running.send_signal(signal.SIGTERM)
                code = self._running.wait()
            self._running = None
        return code

    def _receive(self, number: int, _: FrameType | None) -> None:
        if self._running is None and self.asked:
            os._exit(128 + number)
        self.asked = True
        if self._running is not None:
            self._running.send_signal(number)


def last_words(log: Path) -> str:
    """The line of a log that says why its command failed."""
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("fl_ddp: error: ")]
    return (said or lines or ["it printed nothing"])[-1].removeprefix("fl_ddp: error: ")
