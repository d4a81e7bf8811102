"""What a method's local training costs beside FedAvg's, and BatchNorm's beside GroupNorm's, in one run.

    python benchmarks/methods.py                           all methods, then the norms
    python benchmarks/methods.py --methods FedKA MOON      some of them
    python benchmarks/methods.py --device cuda

The workload is FedKA's: the t-CNN (878,538 parameters) on 32 x 32 pixels in colour, batch 128, SGD with momentum, four
clients side by side; pixels are random, and each client lacks half of the classes. Each method's rounds alternate with
FedAvg's and with those of a plain loop over clients (plain_loops.py), so that noise of the machine meets all; the first
ones compile and do not count. BatchNorm and GroupNorm are those of a ResNet of four blocks.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import torch
from plain_loops import CLIENTS, LOOPS, Client
from torch import Tensor, nn
from torchvision.models.resnet import BasicBlock, ResNet
from written import write_results

from fl_ddp.arithmetic.repeatable import repeatable
from fl_ddp.check.runs import Unwritten
from fl_ddp.config import registry
from fl_ddp.config.command_line import from_mapping
from fl_ddp.config.registry import build
from fl_ddp.federation import build_federation
from fl_ddp.host.environment import prepare
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.meeting import join
from fl_ddp.ranks.threads import one_torch_thread
from fl_ddp.simulation import Simulation

SAMPLES, BATCH, CLASSES, ANCHORS = 384, 128, 10, 10
STEPS = SAMPLES // BATCH
NEEDS_BATCH_NORM = ("FedBN",)
OPTIONS: dict[str, dict[str, object]] = {"FedKA": {"method.gamma": 1.0}}
"""With which each class is missing or not dominant, so that there are ten anchors."""
Numbers = dict[str, float]


class SmallResNet(nn.Module):
    """Four residual blocks with a norm of one's choice; 4.9 million parameters."""

    def __init__(self, *, in_shape: tuple[int, ...], num_classes: int, kind: str = "batch") -> None:
        super().__init__()
        layer = {"batch": nn.BatchNorm2d, "group": partial(nn.GroupNorm, 32), "none": nn.Identity}[kind]
        self.body = ResNet(BasicBlock, [1, 1, 1, 1], num_classes, norm_layer=layer)
        self.body.conv1 = nn.Conv2d(in_shape[0], 64, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Logits [B, C] of x [B, 3, H, W]."""
        logits: Tensor = self.body(x)
        return logits


def loop_seconds(module: nn.Module, train: Callable[[Client], None], x: Tensor, y: Tensor, batch: int) -> float:
    """A round of a plain loop over clients."""
    if x.device.type == "cuda":
        torch.cuda.synchronize()  # what the engine trains ahead is none of it
    began = time.perf_counter()
    for own_x, own_y in zip(torch.split(x, SAMPLES), torch.split(y, SAMPLES), strict=True):
        received, last = (copy.deepcopy(module) for _ in range(2))
        train(Client(received, last, own_x[: STEPS * batch], own_y[: STEPS * batch], x[:ANCHORS], batch))
    if x.device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - began


def engine_rounds(settings: dict[str, object], ranks: Ranks) -> Iterator[float]:
    """Seconds of local training of round after round; the first are those of compilation, too."""
    config = from_mapping(settings)
    federation = build_federation(config, ranks)
    kept = Unwritten(federation)
    with one_torch_thread(ranks.device.type):
        simulation = Simulation(config, ranks, StopRequest(), federation, kept)
        kept.save(0, simulation.server, simulation._memory, wait=True)
    for _ in simulation.rounds():
        yield kept.records[-1].seconds["training"]


def compared(
    ours: dict[str, object], theirs: dict[str, object], rounds: int, ranks: Ranks, method: str | None = None
) -> Numbers:
    """Milliseconds of a client step of two settings whose rounds alternate, and of a method's plain loop."""
    running = [engine_rounds(settings, ranks) for settings in (ours, theirs)]
    config = from_mapping(ours)
    module = build(config.model, in_shape=(3, 32, 32), num_classes=CLASSES)
    assert isinstance(module, nn.Module)
    module.to(ranks.device)
    generator = torch.Generator().manual_seed(0)
    x = torch.rand(CLIENTS * SAMPLES, 3, 32, 32, generator=generator).to(ranks.device)
    y = torch.randint(CLASSES, (len(x),), generator=generator).to(ranks.device)
    for each in running:
        next(each), next(each)  # the second round's FedALA learns until it settles
    seconds: list[list[float]] = [[], [], []]
    for _ in range(rounds):
        for found, each in zip(seconds, running, strict=False):
            with one_torch_thread(ranks.device.type):
                found.append(next(each))
        if method:
            seconds[2].append(loop_seconds(module, LOOPS[method], x, y, config.batch_size))
    mine, beside, plainly = ([1e3 * s / CLIENTS / STEPS for s in found] for found in seconds)
    numbers = {
        "milliseconds": statistics.median(mine),
        "beside_milliseconds": statistics.median(beside),
        "times": statistics.median(a / b for a, b in zip(mine, beside, strict=True)),
    }
    if method:
        faster = statistics.median(a / b for a, b in zip(plainly, mine, strict=True))
        numbers |= {"loop_milliseconds": statistics.median(plainly), "times_faster_than_loop": faster}
    return numbers


def write_data(folder: Path) -> None:
    """Random pixels in colour; each client has half of the classes."""
    rng = np.random.default_rng(0)
    pixels = rng.integers(0, 256, (CLIENTS * SAMPLES + 100, 3, 32, 32), np.uint8)
    half = rng.integers(0, CLASSES // 2, CLIENTS * SAMPLES)
    labels = np.concatenate([half + CLASSES // 2 * (np.arange(CLIENTS * SAMPLES) // SAMPLES % 2), np.arange(100) % 10])
    split = CLIENTS * SAMPLES
    np.savez(folder / "data.npz", x_train=pixels[:split], y_train=labels[:split], x_test=pixels[split:],
             y_test=labels[split:])  # fmt: skip
    parts = np.arange(split).reshape(CLIENTS, SAMPLES).tolist()
    (folder / "parts.json").write_text(f'{{"clients": {parts}}}')


def table(results: dict[str, dict[str, Numbers]]) -> str:
    """Results as text."""
    lines = [f"{'':16}{'ms a step':>11}{'beside':>9}{'times':>8}{'loop ms':>9}{'faster':>8}"]
    for found in results.values():
        for name, n in found.items():
            line = f"{name:16}{n['milliseconds']:11.1f}{n['beside_milliseconds']:9.1f}{n['times']:8.2f}"
            looped = "loop_milliseconds" in n
            lines.append(line + (f"{n['loop_milliseconds']:9.1f}{n['times_faster_than_loop']:8.2f}" if looped else ""))
    return "\n".join(lines)


def main() -> None:
    known = [name for name in registry.known("method") if name in LOOPS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="*", choices=known, default=known)
    parser.add_argument("--norms", action=argparse.BooleanOptionalAction, default=True, help="and the norms")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--smoke", action="store_true", help="a round of one method, eager: does it run?")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    prepare()
    ranks = join(options.device)
    with tempfile.TemporaryDirectory() as folder, repeatable(ranks.device.type, tf32=False):
        write_data(Path(folder))
        base: dict[str, object] = {
            "data": f"{folder}/data.npz", "partition": "FromFile", "partition.path": f"{folder}/parts.json",
            "clients": CLIENTS, "lanes": CLIENTS, "batch_size": BATCH, "local_steps": STEPS, "lr": 0.01,
            "momentum": 0.9, "rounds": options.rounds + 2, "eval_every": 10**6, "device": options.device,
            "compile": not options.smoke, "model": "FedKACNN", "out": folder,
        }  # fmt: skip
        if options.smoke:
            options.methods, options.rounds, base["rounds"] = ["FedKA"], 1, 3
        small = {**base, "model": f"{Path(__file__).resolve()}:SmallResNet", "batch_size": 32}
        methods, norms = dict[str, Numbers](), dict[str, Numbers]()
        for name in options.methods:
            start = small if name in NEEDS_BATCH_NORM else base
            ours = {**start, "method": name, **OPTIONS.get(name, {})}
            methods[name] = compared(ours, {**start, "method": "FedAvg"}, options.rounds, ranks, name)
            print(table({"": {name: methods[name]}}), flush=True)
            if options.out:  # a machine may be lent for less time than all of them take
                write_results(options.out, {"methods": methods, "norms": norms})
        if options.norms and not options.smoke:
            for kind in ("batch", "none"):
                beside = {**small, "model.kind": "group"}
                norms[kind] = compared({**small, "model.kind": kind}, beside, options.rounds, ranks)
    ranks.close()
    results = {"methods": methods, "norms": norms}
    print(table(results))
    if options.out:
        write_results(options.out, results)


if __name__ == "__main__":
    main()
