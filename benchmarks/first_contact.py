"""The first minutes on a GPU: what the machine can do, and what a local step does on it.

    python benchmarks/first_contact.py                     all stages
    python benchmarks/first_contact.py conv                one of them
    python benchmarks/first_contact.py step --lanes 7 50   with so many lanes of the CNN
    python benchmarks/first_contact.py step --tf32 --convolution products      by other products, other convolutions
    python benchmarks/first_contact.py --device cpu --tiny without a GPU: does this script work?

What each stage decides is in docs/gpu.md. Nothing here is compared with a limit; a stage that fails is told, and the
next one begins.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import sysconfig
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, get_args
from unittest import mock

import numpy as np
import torch
from busy import busy_us, kernels_of
from torch import nn
from written import write_results

from fl_ddp.arithmetic.repeatable import repeatable
from fl_ddp.engine import group as group_module
from fl_ddp.engine.choices import Convolution
from fl_ddp.engine.graphed import Recordings, as_cuda_graph, recorded, warm_up
from fl_ddp.engine.group import Group
from fl_ddp.engine.plan import Plan
from fl_ddp.engine.samples import Normaliser, Samples
from fl_ddp.engine.seeds import torch_seed
from fl_ddp.engine.step import Drawn, Objective, State, Step, StepKind, Training, local_step
from fl_ddp.engine.workplace import Workplace
from fl_ddp.host.environment import prepare
from fl_ddp.methods.fedavg import FedAvg
from fl_ddp.models.cnn import LeNet5, PflCNN
from fl_ddp.models.mlp import MLP
from fl_ddp.network.flat_model import FlatModel
from fl_ddp.protocol import Round

Numbers = dict[str, float]
BATCH, BATCHES = 10, 20
"""Samples of a batch, batches of a client."""


class Place(NamedTuple):
    """Where it is measured, whether only to see that it works, lanes of CNNs side by side, how steps convolve them."""

    device: torch.device
    tiny: bool
    lanes: tuple[int, ...] = (50, 25, 7)
    convolution: Convolution = "auto"

    @property
    def on_gpu(self) -> bool:
        """Whether it is a GPU."""
        return self.device.type == "cuda"

    def wait(self) -> None:
        """For the device."""
        if self.on_gpu:
            torch.cuda.synchronize()

    def milliseconds(self, work: Callable[[], object], repeat: int = 20, inner: int = 1) -> float:
        """Median of a call; `inner` calls are queued before the device is waited for."""
        for _ in range(3):
            work()
        found = []
        for _ in range(3 if self.tiny else repeat):
            self.wait()
            began = time.perf_counter()
            for _ in range(inner):
                work()
            self.wait()
            found.append(1e3 * (time.perf_counter() - began) / inner)
        return statistics.median(found)


def versions(place: Place) -> Numbers:
    """What is installed, and what Triton needs to start."""
    print("python", sys.version.split()[0], "torch", torch.__version__, "cuda", torch.version.cuda)
    if place.on_gpu:
        p = torch.cuda.get_device_properties(0)
        print(p.name, f"{p.total_memory / 2**30:.0f} GiB,", p.multi_processor_count, "multiprocessors")
        print("cudnn", torch.backends.cudnn.version(), "nccl", torch.cuda.nccl.version())  # type: ignore[no-untyped-call]
    header = Path(sysconfig.get_paths()["include"]) / "Python.h"
    print("C compiler:", shutil.which("gcc") or shutil.which("cc") or "none: Triton cannot start")
    print("Python.h:", header if header.is_file() else "none: Triton cannot start")
    return {}


def ceilings(place: Place) -> Numbers:
    """Bandwidth, the 12544 x 128 layer of PflCNN with its update in place and not, launches, waits, uploads."""
    found: Numbers = {}
    size = 2**20 if place.tiny else 2**31
    large = torch.zeros(2, size, dtype=torch.uint8, device=place.device)
    found["copy_tb_per_s"] = 2e-9 * size / place.milliseconds(lambda: large[0].copy_(large[1]), 10)
    lanes, out, into = (2, 8, 64) if place.tiny else (50, 128, 12544)
    w, x = torch.randn(lanes, out, into, device=place.device), torch.randn(lanes, BATCH, into, device=place.device)
    d, gradient = torch.randn(lanes, BATCH, out, device=place.device), torch.empty_like(w)
    small = torch.zeros(1, device=place.device)
    for name in ("ieee", "tf32") if place.on_gpu else ("ieee",):
        with repeatable(place.device.type, tf32=name == "tf32"):
            found[f"forward_{name}_ms"] = place.milliseconds(lambda: torch.bmm(x, w.mT), inner=10)
            found[f"input_{name}_ms"] = place.milliseconds(lambda: torch.bmm(d, w), inner=10)
            found[f"weight_{name}_ms"] = place.milliseconds(lambda: torch.bmm(d.mT, x, out=gradient), inner=10)
            found[f"weight_in_place_{name}_ms"] = place.milliseconds(lambda: w.baddbmm_(d.mT, x), inner=10)
    found["update_alone_ms"] = place.milliseconds(lambda: torch.sub(w, gradient, alpha=0.1, out=w), inner=10)
    found["launch_us"] = 1e3 * place.milliseconds(lambda: small.add_(1), inner=1000)
    found["item_us"] = 1e3 * place.milliseconds(small.item, inner=100)
    row = torch.zeros(1_626_442)
    found["upload_6.5mb_pageable_ms"] = place.milliseconds(lambda: row.to(place.device))
    if place.on_gpu:
        pinned = row.pin_memory()
        found["upload_6.5mb_pinned_ms"] = place.milliseconds(lambda: pinned.to(place.device, non_blocking=True))
        replay = _recorded(lambda: [small.add_(1) for _ in range(20)])
        found["graph_of_20_launches_us"] = 1e3 * place.milliseconds(replay, inner=50)
    return found


def conv(place: Place) -> Numbers:
    """Convolutions of lanes, forward, input and weight: cuDNN's groups, a product of patches that lie ready, a loop."""
    found: Numbers = {}
    layers = {"conv0": (1, 32, 28, 3), "conv1": (3, 32, 32, 3), "conv2": (32, 64, 30, 3), "conv5": (32, 64, 18, 5)}
    for lanes in (2,) if place.tiny else place.lanes:
        for name, layer in layers.items():
            for precision in ("ieee", "tf32") if place.on_gpu else ("ieee",):
                with repeatable(place.device.type, tf32=precision == "tf32"):
                    times = _of_convolution(place, lanes, *layer)
                found |= {f"{way}_{name}_{lanes}_{precision}_ms": time for way, time in times.items()}
    return found


def _of_convolution(place: Place, lanes: int, channels: int, out: int, side: int, kernel: int) -> Numbers:
    """Milliseconds of a convolution without padding, of images of a side, by the way it is made."""
    back = torch.ops.aten.convolution_backward
    rest = (None, [1, 1], [0, 0], [1, 1], False, [0, 0], lanes)
    x = torch.randn(BATCH, lanes * channels, side, side, device=place.device)
    w = torch.randn(lanes * out, channels, kernel, kernel, device=place.device)
    smaller = side - kernel + 1
    dy = torch.randn(BATCH, lanes * out, smaller, smaller, device=place.device)
    turned = torch.randn(lanes * channels, out, kernel, kernel, device=place.device)
    patches = torch.randn(lanes, channels * kernel**2, BATCH * smaller**2, device=place.device)
    filters, given = w.view(lanes, out, -1), dy.view(lanes, out, -1)  # as products have them
    images = x.view(BATCH, lanes, channels, side, side).unbind(1)
    weights = w.view(lanes, out, channels, kernel, kernel).unbind(0)

    def loop() -> None:
        for image, weight in zip(images, weights, strict=True):
            nn.functional.conv2d(image, weight)

    ways: dict[str, Callable[[], object]] = {
        "groups_forward": lambda: torch.ops.aten.convolution(x, w, *rest),
        "groups_input": lambda: back(dy, x, w, *rest, [True, False, False]),
        "groups_weight": lambda: back(dy, x, w, *rest, [False, True, False]),
        "groups_input_by_forward": lambda: nn.functional.conv2d(dy, turned, padding=kernel - 1, groups=lanes),
        "bmm_forward": lambda: torch.bmm(filters, patches),
        "bmm_input": lambda: torch.bmm(filters.mT, given),
        "bmm_weight": lambda: torch.bmm(given, patches.mT),
        "loop_forward": loop,
    }
    found: Numbers = {}
    for way, work in ways.items():
        found |= survived(partial(_of_way, place, way, work), f"{way}_")
    return found


def _of_way(place: Place, way: str, work: Callable[[], object]) -> Numbers:
    """Milliseconds of one way, told at once; as a CUDA graph on a GPU, as steps are, so that no host's time counts."""
    time = place.milliseconds(_recorded(work), 5, inner=20) if place.on_gpu else place.milliseconds(work, 5)
    print(f"  {way:40} {time:12.3f}", flush=True)
    return {way: time}


OfStep = tuple[str, type[nn.Module], tuple[int, int, int], int]
STEPS: list[OfStep] = [("mlp", MLP, (1, 28, 28), 10)]
TINY: list[OfStep] = [
    ("mlp", MLP, (1, 8, 8), 2),
    ("lenet", LeNet5, (3, 16, 16), 2),
]


def step(place: Place) -> Numbers:
    """The compiled local step: compile time, host and device time, its kernels, the same recorded as a CUDA graph."""
    found: Numbers = {}
    cnns: list[OfStep] = [(f"pfl{lanes}", PflCNN, (3, 32, 32), lanes) for lanes in place.lanes]
    steps = TINY if place.tiny else STEPS + cnns
    for name, model, in_shape, lanes in steps:
        of_model = survived(partial(step_of, place, model, in_shape, lanes))
        found |= {f"{name}_{key}": value for key, value in of_model.items()}
    return found


def step_of(place: Place, model: type[nn.Module], in_shape: tuple[int, int, int], lanes: int) -> Numbers:
    """The same of one model."""
    found: Numbers = {}
    began = time.perf_counter()
    group, flat = group_of(place, model, in_shape, lanes)
    run, state = caught_step(group, flat)
    place.wait()
    found["first_seconds"] = time.perf_counter() - began
    began = time.perf_counter()
    run()  # once: the host waits for a GPU that has a thousand launches before it, and a step may have 700
    found["host_us"] = 1e6 * (time.perf_counter() - began)
    place.wait()
    found["us"] = 1e6 * (time.perf_counter() - began)
    kernels = kernels_of(lambda: [run() for _ in range(10)])
    for each in kernels[:12]:
        print(f"  {each.self_device_time_total / 10:9.1f} us {each.count / 10:5.1f} x {str(each.key)[:100]}")
    if place.on_gpu:
        found["kernels"] = sum(each.count for each in kernels) / 10
        found["busy_us"] = busy_us(kernels) / 10
        found |= survived(partial(replayed, place, run, state))
    return found | survived(partial(as_in_runs, place, group, flat), "run_")


def survived(work: Callable[[], Numbers], name: str = "") -> Numbers:
    """What comes of a part that may fail, whatever is wrong with it, without the others."""
    try:
        return work()
    except Exception:
        traceback.print_exc(file=sys.stdout)
        return {f"{name}failed": 1.0}


def group_of(
    place: Place, model: type[nn.Module], in_shape: tuple[int, int, int], lanes: int
) -> tuple[Group, FlatModel]:
    """Clients with some batches of random images each, and their model."""
    random, size = np.random.default_rng(0), lanes * BATCH * BATCHES
    x = torch.from_numpy(random.integers(0, 256, (size, *in_shape), np.uint8)).to(place.device)
    y = torch.from_numpy(random.integers(0, 10, size)).to(place.device)
    data = Samples(x, y)
    with torch_seed(0):
        module = model(in_shape=in_shape, num_classes=10).to(place.device)
    flat = FlatModel(module, 10, data.inputs(x[:1], torch.float32))
    work = Workplace(data, torch.float32, False, True, lambda: None, BATCH, convolution=place.convolution)
    own = np.split(np.arange(size), lanes)
    first = Round(0, -1, ends_task=False, task=0)
    return Group(work, Plan(BATCH, 1.0, None, 0.01), np.arange(lanes), own, lanes, 0, first), flat


def caught_step(group: Group, flat: FlatModel) -> tuple[Callable[[], None], State]:
    """A local step of FedAvg with what it was last given, and the state that it changes."""
    caught: list[tuple[Step, tuple[Training, Drawn, Normaliser]]] = []

    def catching(objective: Objective, kind: StepKind, shapes: object) -> Step:
        run = local_step(objective, kind, shapes)

        def call(training: Training, drawn: Drawn, normaliser: Normaliser) -> None:
            caught.append((run, (training, drawn, normaliser)))
            run(training, drawn, normaliser)

        return call

    with mock.patch.object(group_module, "local_step", catching):
        group.train(flat.init(), FedAvg(flat), {}, {})
    run, given = caught[-1]

    def once() -> None:
        with torch.no_grad():
            run(*given)

    return once, given[0].state


def replayed(place: Place, run: Callable[[], None], state: State) -> Numbers:
    """A step recorded as a CUDA graph: microseconds, and whether its bits are those of calls (1 or 0)."""
    tensors = [*state.walk.tensors, state.loss]
    before = [t.clone() for t in tensors]

    def restore() -> None:
        for t, b in zip(tensors, before, strict=True):
            t.copy_(b)

    for _ in range(3):
        run()
    right = [t.clone() for t in tensors]
    replay = _recorded(run)
    restore()
    for _ in range(3):
        replay()
    same = all(torch.equal(a, b) for a, b in zip(right, tensors, strict=True))
    return {"replay_same_bits": float(same), "replay_us": 1e3 * place.milliseconds(replay, inner=50)}


def as_in_runs(place: Place, group: Group, flat: FlatModel) -> Numbers:
    """Local training as runs have it, by steps that find their samples themselves: microseconds a step of many.

    Beside them whether the step was recorded, and whether the bits are those of single steps (1 or 0).
    """
    recorded_steps = list[bool]()

    def record(function: Callable[[], None]) -> Callable[[], object]:
        again = as_cuda_graph(function) if place.on_gpu else function
        recorded_steps.append(again is not function)
        return again

    epochs = 1 if place.tiny else 10
    plan, start, steps = replace(group.plan, epochs=float(epochs)), flat.init(), epochs * BATCHES
    singly = group.train(start, FedAvg(flat), {}, {}, plan=plan).theta
    group.workplace = replace(group.workplace, recordings=Recordings(record))
    found = group.train(start, FedAvg(flat), {}, {}, plan=plan).theta
    milliseconds = place.milliseconds(lambda: group.train(start, FedAvg(flat), {}, {}, plan=plan), repeat=5)
    same = float(torch.equal(singly, found))
    return {"run_recorded": float(all(recorded_steps)), "run_same_bits": same, "run_us": 1e3 * milliseconds / steps}


def _recorded(work: Callable[[], object]) -> Callable[[], None]:
    """Some work as a CUDA graph."""
    warm_up(work)
    return recorded(work)


STAGES: Mapping[str, Callable[[Place], Numbers]] = {
    "versions": versions,
    "ceilings": ceilings,
    "conv": conv,
    "step": step,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stages", nargs="*", metavar="STAGE", help=f"of {', '.join(STAGES)}; all if none is given")
    parser.add_argument("--device", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--tiny", action="store_true", help="small sizes, a few repetitions: does it run?")
    parser.add_argument("--lanes", type=int, nargs="+", default=[50, 25, 7], help="of CNNs; default: 50 25 7")
    parser.add_argument(
        "--convolution", choices=get_args(Convolution), default="auto", help="of steps, as runs have it"
    )
    parser.add_argument("--tf32", action="store_true", help="products and steps in TF32; conv has both")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    options = parser.parse_args()
    if unknown := set(options.stages) - STAGES.keys():
        parser.error(f"no stage {', '.join(sorted(unknown))}; there are {', '.join(STAGES)}")
    prepare()
    device = torch.device("cuda", 0) if options.device == "cuda" else torch.device("cpu")
    place = Place(device, options.tiny, tuple(options.lanes), options.convolution)
    results: dict[str, Numbers] = {}
    for name in options.stages or STAGES:
        print(f"== {name}", flush=True)
        began = time.perf_counter()
        with repeatable(place.device.type, tf32=options.tf32):  # as in a run
            results[name] = survived(partial(STAGES[name], place))
        for key, value in results[name].items():
            print(f"  {key:40} {value:12.3f}")
        print(f"-- {time.perf_counter() - began:.0f} s", flush=True)
        if options.out:
            write_results(options.out, results)
    if not place.on_gpu and any(key.endswith("failed") for found in results.values() for key in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
