"""Processes that do what may fail, hang or crash, so that the one that asks outlives it.

Nothing here imports torch, so that it is imported once: in the process that the helpers are forked from.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from threading import Thread
from typing import NamedTuple

from fl_ddp.errors import ElsewhereError, RankLostError, Told

Handler = Callable[[object], Iterable[object]]
"""What a helper does when it is asked for something: the answers, one after another. It travels to the helper."""

_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["fl_ddp.check.preloaded"])
_LEAVE = 1.0
"""Seconds in which a helper that does nothing leaves in order once nobody can ask any more."""


class Failure(NamedTuple):
    """An answer that did not come.

    Attributes:
        told: why.
        cause: whether it may be why others failed, and not the other way round.
    """

    told: Told
    cause: bool = True


def warm_up() -> None:
    """Begin to import what helpers need."""
    forkserver.ensure_running()


class Helper:
    """A process that answers; it is started when it is first asked, and again after it had to be ended."""

    def __init__(self, handler: Handler) -> None:
        """Remember what it is to do."""
        self._handler = handler
        self._process: multiprocessing.process.BaseProcess | None = None
        self._busy = False

    def ask(self, request: object) -> None:
        """Ask for something; answers() has what comes of it, and must be read before the next request."""
        if self._process is None:
            self._connection, theirs = _CONTEXT.Pipe()
            process = _CONTEXT.Process(target=_serve, args=(theirs, self._handler), daemon=True)
            process.start()
            theirs.close()
            self._process = process
        self._busy = True
        self._connection.send(request)

    def answers(self, limit: float) -> Iterator[object]:
        """The answers to what was asked, each within so many seconds; a Failure is the last."""
        while (answer := self._answer(limit)) is not None:
            yield answer
        self._busy = False

    def end(self) -> None:
        """Let nothing of it be left."""
        if self._process is not None:
            self._connection.close()
            if not self._busy:
                self._process.join(_LEAVE)
            self._process.kill()
            self._process.join()
            self._process.close()
            self._process = None

    def _answer(self, limit: float) -> object:
        if self._process is None:
            return None
        if not self._connection.poll(limit):
            self.end()
            return Failure(Told(f"is not over after {limit:.0f} s", "", 1), cause=False)
        try:
            return self._connection.recv()
        except (EOFError, ConnectionResetError):
            self._process.join(_LEAVE)
            code = self._process.exitcode or 0
            self.end()
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            return Failure(Told(f"its process ended with {how}", "", 1))


def _serve(connection: Connection, handler: Handler) -> None:
    """Answer until the one that asks is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the one that asks, which ends this one
    Thread(target=_end_with_parent, daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what runs print is not what was asked for
    while True:
        try:
            request = connection.recv()
        except EOFError:
            return
        try:
            for answer in handler(request):
                connection.send(answer)
        except Exception as error:
            connection.send(Failure(_told(error), not isinstance(error, ElsewhereError | RankLostError)))
        connection.send(None)


def _told(error: Exception) -> Told:
    return Told(str(error), "", error.exit_code) if isinstance(error, ElsewhereError) else Told.of(error)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
