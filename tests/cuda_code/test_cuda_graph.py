"""How a function becomes a CUDA graph, by stand-ins of torch.cuda where there is none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import pytest
import torch

from fl_ddp.engine import graphed
from fl_ddp.engine.graphed import as_cuda_graph


def test_a_cuda_graph_is_recorded_after_two_runs_on_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in of torch.cuda, where there is none: what is recorded in the midst of compiling fails."""
    seen: list[str] = []

    class Stream:
        def wait_stream(self, other: Stream) -> None:
            seen.append("wait")

    class Graph:
        def replay(self) -> None:
            seen.append("replay")

    @contextmanager
    def on(stream: Stream) -> Iterator[None]:
        assert stream is side
        seen.append("side")
        yield
        seen.append("back")

    @contextmanager
    def recording(graph: Graph, *, pool: str, stream: Stream, capture_error_mode: str) -> Iterator[None]:
        assert pool == "of all" and stream is side and capture_error_mode == "thread_local"
        seen.append("record")
        yield
        seen.append("recorded")

    side, current = Stream(), Stream()
    for name, instead in {
        "current_stream": lambda: current,
        "stream": on,
        "CUDAGraph": Graph,
        "graph": recording,
    }.items():
        monkeypatch.setattr(torch.cuda, name, instead)
    monkeypatch.setattr(graphed, "_side_stream", lambda: side)
    monkeypatch.setattr(graphed, "_pool", lambda: "of all")
    as_cuda_graph(lambda: seen.append("run"))()
    runs = ["wait", "side", "run", "run", "back", "wait"]
    assert seen == [*runs, "record", "run", "recorded", "replay"]


def test_a_failed_recording_launches_the_same_singly_and_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """By a stand-in of torch.cuda, which stays on the recording's stream, and in its pool, where one fails."""

    class Stream:
        device_index = 3

        def wait_stream(self, other: Stream) -> None:
            pass

    side, default = Stream(), Stream()
    seen: list[object] = []
    on = [default]

    @contextmanager
    def recording(graph: object, **_: object) -> Iterator[None]:
        on.append(side)
        try:
            yield
        finally:
            raise RuntimeError("CUDA error: operation failed due to a previous error during capture")

    def function() -> None:
        seen.append("run")
        if on[-1] is side:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing\nmore")

    class Generator:
        """Whose state is none to draw from as long as a recording is under way."""

        def clone_state(self) -> str:
            return "ended"

        def graphsafe_set_state(self, state: str) -> None:
            seen.append(state)

    for name, instead in {
        "default_generators": (None, None, None, Generator()),
        "current_stream": lambda: on[-1],
        "stream": lambda _: nullcontext(),
        "set_stream": on.append,
        "CUDAGraph": object,
        "graph": recording,
        "graph_pool_handle": lambda: (0, len(seen)),
    }.items():
        monkeypatch.setattr(torch.cuda, name, instead)
    monkeypatch.setattr(torch._C, "_cuda_endAllocateToPool", lambda *given: seen.append(given), raising=False)
    monkeypatch.setattr(graphed, "_side_stream", lambda: side)
    graphed._pool.cache_clear()
    with caplog.at_level(logging.INFO, "fl_ddp.engine.graphed"):
        again = as_cuda_graph(function)
    assert on[-1] is default and seen == ["run", "run", "run", (3, (0, 2)), "ended"]
    again()
    assert seen[-1] == "run" and graphed._pool() == (0, 6), "another pool from now on"
    graphed._pool.cache_clear()
    told = "a recording failed (RuntimeError: CUDA error: operation not permitted when stream is capturing)"
    assert [record.getMessage() for record in caplog.records] == [told]
