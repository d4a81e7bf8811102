"""The per-sample Fisher pass against a plain forward and backward pass over the same data, in one run.

    python benchmarks/fisher.py                          all workloads
    python benchmarks/fisher.py --workloads mlp cnn      some of them

A pass goes over the samples of all lanes in the engine's chunks. The plain pass differs only in what it adds up: the
gradients, not their squares; it is compiled like the Fisher's. Both run on as many groups at once as there are threads,
in alternation. The loop is the other way to get per-sample gradients: nn.Module, one sample at a time, backward,
square, add. Peak memory is that of a process of its own, for the samples given and for four times as many.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from fl_ddp import importance
from fl_ddp.compilation import compiled
from fl_ddp.coverage import coverage
from fl_ddp.environment import prepare
from fl_ddp.flat_model import FlatModel
from fl_ddp.group import Group, Workplace
from fl_ddp.importance import fisher
from fl_ddp.models.cnn import FedKACNN, ImportanceCNN
from fl_ddp.models.mlp import MLP
from fl_ddp.models.resnet import ResNet18
from fl_ddp.plan import Plan
from fl_ddp.protocol import Batch, Leaves
from fl_ddp.samples import Normaliser, Samples
from fl_ddp.seeds import torch_seed
from fl_ddp.step import Drawn
from fl_ddp.summary import versions_and_hardware
from fl_ddp.workers import one_torch_thread


class Workload(NamedTuple):
    """A model, its images, clients side by side, samples of each, and the most that a Fisher pass may cost."""

    model: Callable[..., nn.Module]
    in_shape: tuple[int, int, int]
    lanes: int
    samples: int
    due: float


WORKLOADS = {
    "mlp": Workload(MLP, (1, 28, 28), 10, 600, 1.1),
    "cnn": Workload(FedKACNN, (1, 28, 28), 10, 600, 1.3),
    "cnn_padded": Workload(ImportanceCNN, (1, 28, 28), 10, 600, 1.3),
    "resnet18": Workload(ResNet18, (3, 32, 32), 4, 56, 1.5),
}
LOOP = 30.0
"""Times that the loop must be slower."""

Numbers = dict[str, float]
Pass = Callable[[Group, Tensor], object]


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
    work = Workplace(data, torch.float32, False, True, lambda: None)
    own = np.split(np.arange(len(images)), clients)
    plan, lanes = Plan(10, 1.0, None, 0.1), workload.lanes
    groups = [
        Group(work, plan, np.arange(i, i + lanes), own[i : i + lanes], lanes, 0, 0) for i in range(0, clients, lanes)
    ]
    return module, model, groups


def plain_pass(model: FlatModel, chunk: int) -> Pass:
    """Forward and backward passes over a group's samples, gradients accumulated as the Fisher is."""

    def loss(theta: Leaves, batch: Batch) -> Tensor:
        return (model.nll(theta, batch.x, batch.y) * batch.mask).sum()

    lanes = vmap(grad(loss))

    def step(total: Leaves, theta: Leaves, drawn: Drawn, normaliser: Normaliser) -> None:
        found = lanes(theta, Batch(normaliser.inputs(drawn.x, model.dtype), drawn.y, drawn.mask, drawn.key))
        for old, g in zip(total, found, strict=True):
            old.add_(g)

    run = compiled(step)

    def whole(group: Group, theta: Tensor) -> Tensor:
        leaves = tuple(leaf.clone() for leaf in model.leaves(theta.expand(group.lanes, -1)))
        total = tuple(torch.zeros_like(leaf) for leaf in leaves)
        with torch.no_grad():
            for drawn in group.once(chunk):
                run(total, leaves, drawn, group.workplace.samples.normaliser)
        return torch.cat([leaf.flatten(1) for leaf in total], 1)

    return whole


def loop(module: nn.Module, x: Tensor, y: Tensor) -> None:
    """The Fisher of some samples, one after another."""
    parameters = [*module.parameters()]
    total = [torch.zeros_like(p) for p in parameters]
    for sample, label in zip(x.split(1), y.split(1), strict=True):  # type: ignore[no-untyped-call]
        module.zero_grad()
        _, logits = module(sample)
        torch.autograd.backward(nn.functional.cross_entropy(logits, label))
        for old, p in zip(total, parameters, strict=True):
            if p.grad is not None:
                old += p.grad.square()


def measure(name: str, rounds: int, loop_samples: int, scale: int, device: str) -> Numbers:
    """Times of one workload, microseconds a sample of all threads together."""
    workload = WORKLOADS[name]
    samples = workload.samples * scale
    module, model, groups = federation(workload, samples, device)
    theta, data = model.init(), groups[0].workplace.samples
    chunk = importance._chunk(coverage(model, workload.in_shape), 1)
    ways: dict[str, Pass] = {
        "fisher": lambda group, theta: fisher(group, theta, model),
        "plain": plain_pass(model, chunk),
    }
    if scale > 1:
        del ways["plain"]
    seconds: dict[str, list[float]] = {way: [] for way in (*ways, "loop")}
    first: Numbers = {}
    size = len(groups) * workload.lanes * samples
    module.eval()
    x, y = data.inputs(data.x[:loop_samples], torch.float32), data.y[:loop_samples]

    def timed(work: Callable[[], object]) -> float:
        began = time.perf_counter()
        work()
        if device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    for index in range(rounds + 1):
        with one_torch_thread(device) as workers:
            for way, whole in ways.items():
                took = timed(lambda whole=whole: workers.map(lambda group: whole(group, theta), groups))  # type: ignore[misc]
                if index:
                    seconds[way].append(took / size)
                else:
                    first[way] = took
        if scale == 1:
            took = timed(lambda: loop(module.requires_grad_(), x, y))
            if index:
                seconds["loop"].append(took / len(y))
    peak = (
        torch.cuda.max_memory_allocated()
        if device == "cuda"
        else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    )
    found = {f"{way}_us": 1e6 * statistics.median(times) for way, times in seconds.items() if times}
    found |= {f"{way}_us_least": 1e6 * min(times) for way, times in seconds.items() if times}
    if scale == 1:
        ratios = [a / b for a, b in zip(seconds["fisher"], seconds["plain"], strict=True)]
        found |= {
            "of_plain": statistics.median(ratios),
            "of_plain_by_least": min(seconds["fisher"]) / min(seconds["plain"]),
            "due": workload.due,
            "loop_of_fisher": found["loop_us"] / found["fisher_us"],
        }
    return found | {
        "parameters": model.num_params,
        "lanes": workload.lanes,
        "groups": len(groups),
        "samples": samples,
        "chunk": chunk,
        "first_pass_seconds": first["fisher"],
        "peak_megabytes": peak / 1e6,
    }


def table(results: dict[str, Numbers]) -> str:
    """Results as text."""
    columns = ("fisher us", "plain us", "ratio", "(least)", "due", "loop us", "loop/f.", "MB", "MB at 4x")
    lines = [" " * 12 + "".join(f" {column:>9}" for column in columns)]
    for name, n in results.items():
        lines.append(
            f"{name:12} {n['fisher_us']:9.1f} {n['plain_us']:9.1f} {n['of_plain']:9.2f} {n['of_plain_by_least']:9.2f} "
            f"{n['due']:9.1f} {n['loop_us']:9.0f} {n['loop_of_fisher']:9.1f} {n['peak_megabytes']:9.0f} "
            f"{n.get('peak_megabytes_at_4x', float('nan')):9.0f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=WORKLOADS, default=list(WORKLOADS))
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=15, help="passes of each kind")
    parser.add_argument("--loop-samples", type=int, default=50, help="samples of each block of the loop")
    parser.add_argument("--smoke", action="store_true", help="two passes of the MLP: does it run?")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--scale", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.smoke:
        options.workloads, options.rounds, options.loop_samples = ["mlp"], 2, 10
    if options.scale:
        prepare()
        print(
            json.dumps(
                measure(options.workloads[0], options.rounds, options.loop_samples, options.scale, options.device)
            )
        )
        return

    def alone(name: str, rounds: int, scale: int) -> Numbers:
        """One workload in a process of its own."""
        given = ["--workloads", name, "--rounds", str(rounds), "--scale", str(scale), "--device", options.device]
        given += ["--loop-samples", str(options.loop_samples)]
        done = subprocess.run([sys.executable, __file__, *given], check=True, stdout=subprocess.PIPE, env=os.environ)
        numbers: Numbers = json.loads(done.stdout)
        return numbers

    results = {name: alone(name, options.rounds, 1) for name in options.workloads}
    for name in options.workloads:
        results[name]["peak_megabytes_at_4x"] = alone(name, 1, 4)["peak_megabytes"]
    print(table(results))
    if options.out:
        content = {"command": " ".join(sys.argv), "results": results, "environment": versions_and_hardware()}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
