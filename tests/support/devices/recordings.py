"""What stands for the recording of a CUDA graph in tests, and what is done with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fl_ddp.engine.graphed import Recorder, Recordings, as_cuda_graph
from fl_ddp.engine.workplace import Workplace
from fl_ddp.errors import InterruptedRunError


class Recorded:
    """In place of a CUDA graph: runs a function again, and counts."""

    def __init__(self) -> None:
        self.made, self.steps = 0, 0

    def __call__(self, function: Callable[[], None]) -> Callable[[], object]:
        for _ in range(2):  # as before a CUDA graph is recorded
            function()
        self.made += 1

        def again() -> None:
            self.steps += 1
            function()

        return again


class Refused:
    """A GPU that records nothing; counts how often it is tried."""

    def __init__(self, why: str) -> None:
        self.tried, self._why = 0, why

    def __call__(self, function: Callable[[], None]) -> Callable[[], object]:
        self.tried += 1
        function()
        raise RuntimeError(self._why)


class Graphs:
    """Real CUDA graphs, which must be; counts."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, function: Callable[[], None]) -> Callable[[], object]:
        again = as_cuda_graph(function)
        assert again is not function, "it could not be recorded"
        self.made += 1
        return again


class Stop:
    """A check before steps, which stops the run behind so many of them; counts."""

    def __init__(self, last: int) -> None:
        self.calls, self.last = 0, last

    def __call__(self) -> None:
        self.calls += 1
        if self.calls > self.last:
            raise InterruptedRunError


def recording(work: Workplace, record: Recorder) -> Workplace:
    """The same place, where steps are recorded."""
    return replace(work, recordings=Recordings(record))
