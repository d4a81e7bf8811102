"""Rounds of many clients whose servers get rows: seconds a round, and the most memory that a run holds.

    python benchmarks/rows.py                        FedAvg, which has sums alone, FedFomo and FedPAC
    python benchmarks/rows.py --methods FedFomo      one of them
    python benchmarks/rows.py --device cuda

100 clients of the t-CNN (878,538 parameters) that hold 60,000 images of 32 x 32 pixels in colour by Dir(0.1), three
quarters of them to train on; two local steps in batches of 16. A row of FedFomo is a whole model, one of FedPAC a head.
Pixels and labels are random: the arithmetic is the same. Each method runs in a process of its own; its first round
compiles and does not count. The load average before it all says whether the machine did other things, too; processor
seconds depend on that less than seconds do.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from written import write_results

from fl_ddp.arithmetic.repeatable import repeatable
from fl_ddp.config.command_line import from_mapping
from fl_ddp.federation import build_federation
from fl_ddp.host.environment import prepare
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.ranks.meeting import join
from fl_ddp.ranks.threads import one_torch_thread
from fl_ddp.records import Records
from fl_ddp.simulation import Simulation

METHODS = ("FedAvg", "FedFomo", "FedPAC")
CLIENTS, IMAGES, CLASSES = 100, 60_000, 10
SMOKE_CLIENTS, SMOKE_IMAGES = 4, 1_200

Numbers = dict[str, float]


def measure(method: str, folder: Path, options: argparse.Namespace) -> Numbers:
    """Seconds and memory of one method's rounds."""
    clients = SMOKE_CLIENTS if options.smoke else CLIENTS
    config = from_mapping(
        {
            "data": str(folder / "data.npz"),
            "data.merge": True,
            "partition": "Dirichlet",
            "partition.alpha": 0.1,
            "local_test": 0.25,
            "model": "FedKACNN",
            "method": method,
            "clients": clients,
            "local_steps": 2,
            "batch_size": 16,
            "lr": 0.01,
            "momentum": 0.9,
            "rounds": options.rounds + 2,  # the last, which alone is evaluated, is left out
            "eval_every": options.rounds + 2,
            "device": options.device,
            "compile": not options.smoke,
            "out": str(folder),
        }
    )
    ranks = join(options.device)
    federation = build_federation(config, ranks)
    records = Records(config, ranks, federation, ())
    seconds, processor = [], []
    with repeatable(ranks.device.type, tf32=False), one_torch_thread(ranks.device.type):
        left = Simulation(config, ranks, StopRequest(), federation, records).rounds()
        for _ in range(options.rounds + 1):
            began, used = time.perf_counter(), time.process_time()
            next(left)
            if ranks.device.type == "cuda":
                torch.cuda.synchronize()
            seconds.append(time.perf_counter() - began)
            processor.append(time.process_time() - used)
    records.release()
    cuda = ranks.device.type == "cuda"
    peak = torch.cuda.max_memory_allocated() if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    ranks.close()
    return {
        "clients": clients,
        "parameters": federation.model.num_params,
        "lanes": federation.lanes,
        "first_round_seconds": seconds[0],
        "seconds_a_round": statistics.median(seconds[1:]),
        "processor_seconds_a_round": statistics.median(processor[1:]),
        "peak_gigabytes": peak / 1e9,
    }


def write_data(folder: Path, images: int) -> None:
    """Random pixels in the shape of CIFAR-10, a sixth of them for the test set."""
    rng = np.random.default_rng(0)
    pixels, split = rng.integers(0, 256, (images, 3, 32, 32), np.uint8), images * 5 // 6
    labels = rng.permutation(np.arange(images) % CLASSES)
    np.savez(folder / "data.npz", x_train=pixels[:split], y_train=labels[:split], x_test=pixels[split:],
             y_test=labels[split:])  # fmt: skip


def table(methods: dict[str, Numbers]) -> str:
    """Results as text."""
    lines = [f"{'':10}{'s a round':>11}{'processor s':>13}{'first, s':>10}{'peak GB':>9}"]
    for name, n in methods.items():
        lines.append(
            f"{name:10}{n['seconds_a_round']:11.1f}{n['processor_seconds_a_round']:13.1f}"
            f"{n['first_round_seconds']:10.1f}{n['peak_gigabytes']:9.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--rounds", type=int, default=2, help="that count")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--smoke", action="store_true", help="a round of four clients, eager: does it run?")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.smoke:
        options.rounds = 1
    prepare()
    if options.folder:
        (method,) = options.methods
        (options.folder / f"{method}.json").write_text(json.dumps(measure(method, options.folder, options)))
        return
    before, methods = os.getloadavg()[0], dict[str, Numbers]()
    with tempfile.TemporaryDirectory() as folder:
        write_data(Path(folder), SMOKE_IMAGES if options.smoke else IMAGES)
        for method in options.methods:
            given = ["--folder", folder, "--methods", method, "--rounds", str(options.rounds)]
            given += ["--device", options.device, *(["--smoke"] if options.smoke else [])]
            subprocess.run([sys.executable, __file__, *given], check=True, stdout=subprocess.DEVNULL)
            methods[method] = json.loads(Path(folder, f"{method}.json").read_text())
            print(table({method: methods[method]}), flush=True)
    print(table(methods))
    if options.out:
        write_results(options.out, {"load_average_before": before, "methods": methods})


if __name__ == "__main__":
    main()
