"""How busy the rounds of a run keep a GPU, and behind which kernels it has nothing to do.

    python benchmarks/gpu_use.py                               the CIFAR-10 workload, on random pixels
    python benchmarks/gpu_use.py --lanes 50 --precision tf32   with any other options of fl_ddp.main
    python benchmarks/gpu_use.py --shape 1 28 28 --model MLP --clients 100 --cohort 10 --lr 0.01
    python benchmarks/gpu_use.py --smoke --device cpu          without a GPU: does this script work?

Rounds are timed first, one after the other as a run has them and whole intervals between tests of them, with nothing
beside them; then so many more are traced. Files are written where a run writes them.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import torch
from busy import profiled
from rounds import write_data
from written import write_results

from fl_ddp.arithmetic.repeatable import repeatable
from fl_ddp.config.command_line import parse
from fl_ddp.config.settings import Config
from fl_ddp.federation import build_federation
from fl_ddp.host.environment import prepare
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.meeting import join
from fl_ddp.ranks.threads import one_torch_thread
from fl_ddp.records import Records
from fl_ddp.simulation import Simulation

CONFIG = Path(__file__).parent.parent / "configs" / "benchmarks" / "cifar10_1000_clients.yaml"
ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
"""Kinds of events in a trace that a GPU is busy with."""
SHORTEST = 15.0
"""Microseconds from which a gap is told; shorter ones are launches."""


class Busy(NamedTuple):
    """Something that a GPU did: when it began, how long it took, both in microseconds, and what it was."""

    start: float
    took: float
    name: str


class Gap(NamedTuple):
    """Microseconds in which a GPU had nothing to do, behind one kernel and before another."""

    took: float
    behind: str
    before: str


class Use(NamedTuple):
    """What a GPU did in a span of time.

    Attributes:
        span: microseconds from the first kernel's start to the last one's end.
        idle: of them, without any kernel.
        kernels: [(name, how many, microseconds)], the longest first.
        gaps: the longest first.
    """

    span: float
    idle: float
    kernels: list[tuple[str, int, float]]
    gaps: list[Gap]


def use_of(events: Sequence[Busy]) -> Use:
    """What a GPU did, by events in any order; they may overlap, as copies do with kernels."""
    if not events:
        return Use(0.0, 0.0, [], [])
    in_turn, gaps, of_name = sorted(events), list[Gap](), dict[str, tuple[int, float]]()
    last, idle = in_turn[0], 0.0
    for event in in_turn:
        count, took = of_name.get(event.name, (0, 0.0))
        of_name[event.name] = count + 1, took + event.took
        nothing = event.start - (last.start + last.took)
        if nothing > 0:
            idle += nothing
        if nothing >= SHORTEST:
            gaps.append(Gap(nothing, last.name, event.name))
        last = max(last, event, key=lambda each: each.start + each.took)
    kernels = [(name, count, took) for name, (count, took) in of_name.items()]
    span = last.start + last.took - in_turn[0].start
    return Use(span, idle, sorted(kernels, key=lambda each: -each[2]), sorted(gaps, reverse=True))


def traced(rounds: Iterator[int], count: int, folder: Path) -> Use:
    """What a GPU did in so many rounds; nothing where there is none."""
    file = folder / "trace.json"
    profiled(partial(taken, rounds, count)).export_chrome_trace(str(file))
    found = json.loads(file.read_text())["traceEvents"]
    return use_of([Busy(each["ts"], each["dur"], each["name"]) for each in found if each.get("cat") in ON_GPU])


def taken(rounds: Iterator[int], count: int) -> float:
    """Seconds of so many rounds, until the device has done all of them."""
    began = time.perf_counter()
    assert len([*islice(rounds, count)]) == count
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def measure(config: Config, ranks: Ranks, timed: int, folder: Path) -> tuple[dict[str, float], Use]:
    """Numbers of a run's rounds: what a first interval between tests takes, what others do, and the use in one more."""
    federation = build_federation(config, ranks)
    records = Records(config, ranks, federation, ())
    try:
        simulation = Simulation(config, ranks, StopRequest(), federation, records)
        rounds, interval = simulation.rounds(), config.eval_every
        first, rest = taken(rounds, 1), taken(rounds, interval - 1)
        seconds = taken(rounds, timed)
        use = traced(rounds, interval, folder)
    finally:
        records.release()
    numbers = {
        "lanes": federation.lanes,
        "parameters": federation.model.num_params,
        "first_round_seconds": first,
        "rest_of_first_interval_seconds": rest,
        "timed_rounds": timed,
        "milliseconds_a_round": 1e3 * seconds / timed,
        "rounds_between_tests": interval,
    }
    if use.span:
        numbers |= {
            "traced_milliseconds_a_round": use.span / interval / 1e3,
            "idle_milliseconds_a_round": use.idle / interval / 1e3,
            "busy_share": 1 - use.idle / use.span,
            "kernels_a_round": sum(count for _, count, _ in use.kernels) / interval,
        }
    return numbers, use


def rounds_for(timed: int, interval: int) -> int:
    """Rounds of a run: one is left, as a round trains the next one's first group, and the last one saves the run."""
    return timed + 2 * interval + 1


def lines(numbers: dict[str, float], use: Use, most: int) -> Iterator[str]:
    """Results as text, with so many kernels and gaps; both by the round."""
    rounds = int(numbers["rounds_between_tests"])
    yield from (f"{name.replace('_', ' '):32} {value:12,.3f}" for name, value in numbers.items())
    if use.kernels:
        yield f"{'us a round':>12} {'times':>8}  kernel"
    for name, count, took in use.kernels[:most]:
        yield f"{took / rounds:12.1f} {count / rounds:8.1f}  {name[:90]}"
    if use.gaps:
        yield f"{'us':>12} {'':8}  nothing to do behind a kernel and before another"
    for gap in use.gaps[:most]:
        yield f"{gap.took:12.1f} {'':8}  {gap.behind[:44]} -> {gap.before[:44]}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--timed", type=int, default=300, help="rounds; at least one interval between tests")
    parser.add_argument("--shape", type=int, nargs="+", default=[3, 32, 32], help="of the random samples")
    parser.add_argument("--most", type=int, default=24, help="kernels and gaps that are told")
    parser.add_argument("--smoke", action="store_true", help="a few rounds of few clients: does it run?")
    parser.add_argument("--results", type=Path, help="JSON file for the results")
    options, of_run = parser.parse_known_args()
    if options.smoke:
        options.timed, options.shape = 4, [1, 8, 8]
        of_run += ["--model=MLP", "--clients=20", "--cohort=4", "--eval_every=2", "--compile=false"]
    prepare()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_data(folder / "pixels.npz", tuple(options.shape), *((400, 40) if options.smoke else (50_000, 10_000)))
        given = [f"--config={CONFIG}", f"--data={folder / 'pixels.npz'}", *of_run]
        every = parse(given).eval_every
        timed = max(options.timed // every, 1) * every
        config = parse([*given, f"--rounds={rounds_for(timed, every)}", f"--out={folder / 'runs'}", "--name=run"])
        ranks = join(config.device)
        with repeatable(ranks.device.type, tf32=config.precision == "tf32"), one_torch_thread(ranks.device.type):
            numbers, use = measure(config, ranks, timed, folder)
    print(*lines(numbers, use, options.most), sep="\n")
    if options.results:
        kernels = [{"name": each, "times": n, "microseconds": took} for each, n, took in use.kernels[: options.most]]
        gaps = [gap._asdict() for gap in use.gaps[: options.most]]
        told = {"options": of_run, "shape": options.shape, **numbers, "kernels": kernels, "gaps": gaps}
        write_results(options.results, told)


if __name__ == "__main__":
    main()
