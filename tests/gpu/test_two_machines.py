"""Two machines of one GPU each, as far as torchrun and NCCL can tell: they share one, and sum over sockets."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from device_runs import GPU, SLOW_DEVICES
from launching import GONE, SMALL, Ended, Launch, checkpoints, finished, free_port, launched, numbers, rounds_done

ENDLESS: Mapping[str, object] = {**SMALL, "method": "Scaffold", "rounds": 10**6, "forgetting_every": 0}
METHODS: Mapping[str, Mapping[str, object]] = {
    "FedAvg": {"compile": True},
    "FedCurv": {"forgetting_every": 1},
    "Scaffold": {"lanes": 2},
    "FedFomo": {},
}


@contextmanager
def two_machines(settings: Mapping[str, object], folder: Path) -> Iterator[list[Launch]]:
    """A run of one rank on each, which torchrun's own machines start, too; nothing of it is left afterwards."""
    meet = ["--nnodes=2", "--master_addr=127.0.0.1", f"--master_port={free_port()}"]
    with ExitStack() as stack:
        launches = []
        for k in range(2):
            # NCCL refuses one GPU for two ranks of one host
            host = {"NCCL_HOSTID": f"machine{k}", "NCCL_SOCKET_IFNAME": "lo", "GLOO_SOCKET_IFNAME": "lo"}
            launches.append(stack.enter_context(launched(settings, 1, folder, host, [*meet, f"--node_rank={k}"])))
        yield launches


def after_three_rounds(launches: list[Launch], run: Path) -> list[int]:
    """Their ranks' processes, once three rounds are done and saved."""
    launches[0].until(lambda: rounds_done(run) >= 3 and checkpoints(run))
    return [launch.ranks()[0] for launch in launches]


def errors(ended: Ended) -> list[str]:
    """The lines of one that are ours, and no warnings."""
    return [line for line in ended.ours if "warning" not in line]


@pytest.mark.parametrize(
    ("method", "device"),
    [
        pytest.param("FedCurv", "cpu", marks=pytest.mark.slow),
        *(pytest.param(m, "cuda", marks=GPU.marks) for m in METHODS),
    ],
)
def test_they_end_with_the_bits_of_one_rank(method: str, device: str, tmp_path: Path) -> None:
    settings = {**SMALL, "method": method, **METHODS[method], "device": device, "out": tmp_path}
    with two_machines(settings, tmp_path) as launches:
        both = [launch.ended() for launch in launches]
    assert [ended.code for ended in both] == [0, 0], [ended.err[-3000:] for ended in both]
    alone = {**settings, "name": "alone"}
    finished(alone, 1, tmp_path)
    assert numbers(tmp_path / "run") == numbers(tmp_path / "alone")


@pytest.mark.parametrize("device", SLOW_DEVICES)
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_ends_the_other_one(victim: int, device: str, tmp_path: Path) -> None:
    with two_machines({**ENDLESS, "device": device, "out": tmp_path}, tmp_path) as launches:
        ranks = after_three_rounds(launches, tmp_path / "run")
        os.kill(ranks[victim], signal.SIGKILL)
        ended = launches[1 - victim].ended(GONE)
    assert ended.code != 0
    (line,) = errors(ended)
    assert "another rank is gone" in line and line.endswith(f"go on with --resume {tmp_path / 'run'}")


@pytest.mark.parametrize("device", SLOW_DEVICES)
def test_a_silent_rank_ends_the_other_one_at_the_limit(device: str, tmp_path: Path) -> None:
    settings = {**ENDLESS, "rank_timeout": 15, "device": device, "out": tmp_path}
    with two_machines(settings, tmp_path) as launches:
        ranks = after_three_rounds(launches, tmp_path / "run")
        os.kill(ranks[1], signal.SIGSTOP)
        ended = launches[0].ended()
    assert ended.code != 0
    (line,) = errors(ended)
    assert "silent for longer than --rank_timeout 15 seconds; go on with --resume" in line


@pytest.mark.parametrize("device", SLOW_DEVICES)
def test_a_stop_of_one_rank_ends_both_with_all_that_was_done_and_one_goes_on_to_the_same_bits(
    device: str, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    with two_machines({**ENDLESS, "checkpoint_every": 10**6, "device": device, "out": tmp_path}, tmp_path) as launches:
        launches[0].until(lambda: rounds_done(run) >= 3)
        os.kill(launches[1].ranks()[0], signal.SIGTERM)
        both = [launch.ended(GONE) for launch in launches]
    assert not [line for ended in both for line in errors(ended) if "error" in line], [ended.err for ended in both]
    done = rounds_done(run)
    assert checkpoints(run) == [f"round_{done:06}"]
    finished({"resume": run, "rounds": done + 2}, 1, tmp_path)
    finished({**ENDLESS, "rounds": done + 2, "device": device, "out": tmp_path, "name": "whole"}, 1, tmp_path)
    assert numbers(run) == numbers(tmp_path / "whole")
