"""The per-sample Fisher pass against a plain forward and backward pass over the same data, in one run.

    python benchmarks/fisher.py                          all workloads
    python benchmarks/fisher.py --workloads mlp cnn      some of them

A Fisher pass is the engine's: over the samples of all lanes in chunks, or of a large model on a CPU lane by lane. The
plain pass, compiled likewise, goes over all lanes at once, its faster way, and adds up gradients, not their squares; on
a GPU both convolve lanes as local steps do, and both are recorded once and replayed.
Both run on as many groups at once as there are threads, in alternation. The loop is the other way to get per-sample
gradients: nn.Module, one sample at a time, backward, square, add. Peak memory is that of a process of its own without
its images, for one and for four times the samples. Of a GPU the time that its kernels take is told, too: a host that
launches them slowly brings the ratio of the others near 1.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from busy import busy_us, kernels_of
from torch import Tensor, nn
from torch.func import grad, vmap
from written import write_results

from fl_ddp.arithmetic.repeatable import repeatable
from fl_ddp.compiler.compilation import compiled
from fl_ddp.engine.graphed import Recordings, as_cuda_graph
from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Normaliser, Samples
from fl_ddp.engine.seeds import torch_seed
from fl_ddp.engine.step import joined
from fl_ddp.engine.workplace import Workplace
from fl_ddp.host.environment import prepare
from fl_ddp.importance.chunk import Chunk, added_up
from fl_ddp.importance.coverage import coverage
from fl_ddp.importance.fisher import chunk_size, fisher
from fl_ddp.models.cnn import FedKACNN, ImportanceCNN
from fl_ddp.models.mlp import MLP
from fl_ddp.models.resnet import ResNet18
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import LANES, Batch, Leaves, Round
from fl_ddp.ranks.threads import one_torch_thread, workers_on


class Workload(NamedTuple):
    """A model, its images, clients side by side, samples of each, passes, and the most that a Fisher pass may cost."""

    model: Callable[..., nn.Module]
    in_shape: tuple[int, int, int]
    lanes: int
    samples: int
    rounds: int
    due: float
    due_on_gpu: float = 1.1


WORKLOADS = {
    "mlp": Workload(MLP, (1, 28, 28), 10, 600, 20, 1.1),
    "cnn": Workload(FedKACNN, (1, 28, 28), 10, 200, 7, 1.3),
    "cnn_padded": Workload(ImportanceCNN, (1, 28, 28), 10, 200, 7, 1.3),
    "resnet18": Workload(ResNet18, (3, 32, 32), 4, 14, 4, 1.5, 1.2),
}
LOOP = 30.0
"""Times that the loop must be slower."""

Numbers = dict[str, float]
Pass = Callable[[Group], object]


def federation(workload: Workload, samples: int, device: str) -> tuple[nn.Module, FlatModel, list[Group]]:
    """Clients with random images, in as many groups as there are threads."""
    threads = torch.get_num_threads() if device == "cpu" else 1
    random = np.random.default_rng(0)
    clients = threads * workload.lanes
    images = random.integers(0, 256, (clients * samples, *workload.in_shape), np.uint8)
    x, y = torch.from_numpy(images).to(device), torch.from_numpy(random.integers(0, 10, len(images))).to(device)
    with torch_seed(0):
        module = workload.model(in_shape=workload.in_shape, num_classes=10).to(device)
    data = Samples(x, y)
    model = FlatModel(module, 10, data.inputs(x[:1], torch.float32))
    spread = workers_on(device).spread
    recordings, most = Recordings(_graph) if device == "cuda" else None, len(images) // clients
    work = Workplace(data, torch.float32, False, True, lambda: None, most, spread=spread, recordings=recordings)
    own = np.split(np.arange(len(images)), clients)
    plan = Plan(10, 1.0, None, 0.1)
    when = Round(0, -1, ends_task=False, task=0)
    groups = [
        Group(work, plan, np.arange(i, i + workload.lanes), own[i : i + workload.lanes], workload.lanes, 0, when)
        for i in range(0, clients, workload.lanes)
    ]
    return module, model, groups


def _graph(step: Callable[[], None]) -> Callable[[], object]:
    """A step as a CUDA graph, and nothing else: a pass whose kernels are launched singly is not what is measured."""
    try:
        again = as_cuda_graph(step)
    except RuntimeError as error:  # which recordings take for a reason to launch singly
        raise SystemExit(f"a step could not be recorded: {error}") from error
    if again is step:
        raise SystemExit("a step could not be recorded")
    return again


def plain_pass(model: FlatModel, theta: Tensor, chunk: int) -> Pass:
    """Forward and backward passes over a group's samples, gradients accumulated as the Fisher is."""

    def loss(theta: Leaves, batch: Batch) -> Tensor:
        return (model.nll(theta, batch.x, batch.y) * batch.mask).sum()

    lanes = vmap(grad(loss), in_dims=(0, LANES))

    def step(total: Leaves, theta: Leaves, chunk: Chunk, normaliser: Normaliser) -> None:
        found = lanes(theta, Batch(normaliser.inputs(chunk.x, model.dtype), chunk.y, chunk.weight, chunk.key))
        for old, g in zip(total, found, strict=True):
            old.add_(g)

    # a GPU's convolutions are those of local steps and of the Fisher pass
    run = compiled(step, "the plain pass", products=None if model.device.type == "cpu" else True)

    def whole(group: Group) -> Tensor:
        leaves = tuple(leaf.clone() for leaf in model.leaves(theta.expand(group.lanes, -1)))
        total = tuple(torch.zeros_like(leaf) for leaf in leaves)
        chunks = (
            (total, leaves, Chunk(drawn.x, drawn.y, drawn.mask, drawn.key), group.workplace.samples.normaliser)
            for drawn in group.once(chunk)
        )
        with torch.no_grad():
            return added_up(group, lambda layout: run, total, chunks, joined)

    return whole


def loop(module: nn.Module, x: Tensor, y: Tensor) -> None:
    """The Fisher of some samples, one after another."""
    parameters = [*module.parameters()]
    total = [torch.zeros_like(p) for p in parameters]
    for sample, label in zip(torch.split(x, 1), torch.split(y, 1), strict=True):
        module.zero_grad()
        _, logits = module(sample)
        torch.autograd.backward(nn.functional.cross_entropy(logits, label))
        for old, p in zip(total, parameters, strict=True):
            if p.grad is not None:
                old += p.grad.square()


def timed(work: Callable[[], object], device: str) -> float:
    """Seconds that something takes."""
    began = time.perf_counter()
    work()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def busy_of(over: Pass, groups: list[Group]) -> float:
    """Microseconds that a GPU's kernels take in a pass over all groups, behind some that wake its clocks up."""
    for _ in range(3):
        timed(partial(list, map(over, groups)), "cuda")
    return busy_us(kernels_of(partial(list, map(over, groups))))


def measure_times(name: str, rounds: int, loop_samples: int, device: str) -> Numbers:
    """Times of one workload, microseconds a sample of all threads together."""
    workload = WORKLOADS[name]
    module, model, groups = federation(workload, workload.samples, device)
    theta, data = model.init(), groups[0].workplace.samples
    chunk = chunk_size(coverage(model, workload.in_shape), 1)
    x, y = data.inputs(data.x[:loop_samples], torch.float32), data.y[:loop_samples]
    module.eval().requires_grad_()
    ways: dict[str, Pass] = {
        "fisher": lambda group: fisher(group, theta, model),
        "plain": plain_pass(model, theta, chunk),
    }
    seconds: dict[str, list[float]] = {"fisher": [], "plain": [], "loop": []}
    size = len(groups) * workload.lanes * workload.samples
    for _ in range(rounds + 1):
        with one_torch_thread(device) as workers:
            for way, over in ways.items():
                work = partial(workers.map, over, groups)
                seconds[way].append(timed(work, device) / size)
        seconds["loop"].append(timed(partial(loop, module, x, y), device) / len(y))
    first = size * seconds["fisher"][0]
    after = {way: times[1:] for way, times in seconds.items()}
    ratios = [a / b for a, b in zip(after["fisher"], after["plain"], strict=True)]
    found = {f"{way}_us": 1e6 * statistics.median(times) for way, times in after.items()}
    found |= {f"{way}_us_least": 1e6 * min(times) for way, times in after.items()}
    if device == "cuda":
        busy = {way: busy_of(over, groups) for way, over in ways.items()}
        found |= {f"{way}_busy_us": us / size for way, us in busy.items()}
        found["of_plain_busy"] = busy["fisher"] / busy["plain"]
    return found | {
        "of_plain": statistics.median(ratios),
        "of_plain_by_least": min(after["fisher"]) / min(after["plain"]),
        "due": workload.due_on_gpu if device == "cuda" else workload.due,
        "loop_of_fisher": found["loop_us"] / found["fisher_us"],
        "parameters": model.num_params,
        "lanes": workload.lanes,
        "groups": len(groups),
        "samples": workload.samples,
        "rounds": rounds,
        "chunk": chunk,
        "first_pass_seconds": first,
    }


def measure_memory(name: str, scale: int, device: str) -> Numbers:
    """Peak memory of a pass, without the images: of a process that makes no other, or on a GPU."""
    workload = WORKLOADS[name]
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated() if device == "cuda" else 0  # models of earlier scales are kept
    _, model, groups = federation(workload, scale * workload.samples, device)
    with one_torch_thread(device) as workers:
        workers.map(lambda group: fisher(group, model.init(), model), groups)
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    peak = torch.cuda.max_memory_allocated() if device == "cuda" else 1024 * kilobytes
    return {f"megabytes_at_{scale}x": (peak - before - groups[0].workplace.samples.x.nbytes) / 1e6}


def table(results: dict[str, Numbers]) -> str:
    """Results as text."""
    columns = ("fisher us", "plain us", "ratio", "(least)", "due", "loop us", "loop/f.", "MB", "MB at 4x")
    lines = [" " * 12 + "".join(f" {column:>9}" for column in columns)]
    for name, n in results.items():
        lines.append(
            f"{name:12} {n['fisher_us']:9.1f} {n['plain_us']:9.1f} {n['of_plain']:9.2f} {n['of_plain_by_least']:9.2f} "
            f"{n['due']:9.1f} {n['loop_us']:9.0f} {n['loop_of_fisher']:9.1f} {n['megabytes_at_1x']:9.0f} "
            f"{n['megabytes_at_4x']:9.0f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, help="passes of each kind, if not the workload's own")
    parser.add_argument("--loop-samples", type=int, default=20, help="samples of each block of the loop")
    parser.add_argument("--smoke", action="store_true", help="two passes of the MLP: does it run?")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--scales", type=int, nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.smoke:
        options.workloads, options.rounds = ["mlp"], 2
    if options.scales:
        prepare()
        name = options.workloads[0]
        rounds, numbers = options.rounds or WORKLOADS[name].rounds, Numbers()
        with repeatable(options.device, tf32=False):
            for scale in options.scales:
                numbers |= (
                    measure_memory(name, scale, options.device)
                    if scale
                    else measure_times(name, rounds, options.loop_samples, options.device)
                )
        print(json.dumps(numbers))
        return

    results: dict[str, Numbers] = {}
    for name in options.workloads:
        # 0: times, of which the first compiles; a GPU's memory can be told of each pass, a CPU's of a process alone
        for scales in [["0", "1", "4"]] if options.device == "cuda" else [["0"], ["1"], ["4"]]:
            given = ["--workloads", name, "--device", options.device, "--scales", *scales]
            given += ["--loop-samples", str(options.loop_samples), "--rounds", str(options.rounds or 0)]
            done = subprocess.run([sys.executable, __file__, *given], check=True, stdout=subprocess.PIPE)
            results.setdefault(name, {}).update(json.loads(done.stdout))
        print(table({name: results[name]}), flush=True)
        if options.out:  # a machine may be lent for less time than all of them take
            write_results(options.out, results)


if __name__ == "__main__":
    main()
