"""Commands on this machine, one or several at once, each a process of its own that writes into a log."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType

_OURS = "fl_ddp: "
_ERROR = f"{_OURS}error: "


class Stop:
    """Ctrl-C and SIGTERM, handed on to the commands that are running; no other is started after them.

    Attributes:
        asked: whether one of them came.
    """

    def __init__(self) -> None:
        """Listen within a with block, in the main thread only."""
        self.asked = False
        self._running: set[subprocess.Popen[bytes]] = set()

    def __enter__(self) -> Stop:
        self._before = {number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def run(self, command: Sequence[str], log: Path, environment: Mapping[str, str]) -> int | None:
        """Run a command to its end; several threads may do so at once.

        Args:
            command: program and arguments.
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
            # In a session of its own a terminal's Ctrl-C reaches it once: through this process.
            with subprocess.Popen(command, stdout=file, stderr=file, start_new_session=True, env=env) as running:
                self._running.add(running)
                if self.asked:  # the signal may have come before this one was in the set
                    running.send_signal(signal.SIGTERM)
                code = running.wait()
            self._running.discard(running)
        return None if self.asked and -code in (signal.SIGINT, signal.SIGTERM) else code

    def ask(self, number: int = signal.SIGTERM) -> None:
        """Stop what is running as a signal does."""
        self.asked = True
        for each in tuple(self._running):
            each.send_signal(number)

    def _receive(self, number: int, _: FrameType | None) -> None:
        if not self._running and self.asked:
            os._exit(128 + number)
        self.ask(number)


def last_words(log: Path) -> str:
    """The line of a log that says why its command failed."""
    lines = _lines(log)
    said = [line for line in lines if line.startswith(_ERROR)]
    return (said or lines or ["it printed nothing"])[-1].removeprefix(_ERROR)


def reported_error(log: Path) -> str | None:
    """Why the last run that wrote into a log failed, if it said so itself, and nothing after it."""
    said = [line for line in _lines(log) if line.startswith(_OURS)] if log.is_file() else []
    return said[-1].removeprefix(_ERROR) if said and said[-1].startswith(_ERROR) else None


def _lines(log: Path) -> list[str]:
    return [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
