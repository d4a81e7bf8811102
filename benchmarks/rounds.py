"""The vectorised engine against a plain eager loop over clients, in one run.

    python benchmarks/rounds.py                      the paper's workloads, one rank, then two ranks of one thread each
    python benchmarks/rounds.py --workloads mlp      one of them
    python benchmarks/rounds.py --workloads all --ranks 1 --rounds 4 --samples 40      every shipped model
    python benchmarks/rounds.py --device cuda --ranks 1

The workload is the importance paper's: 10 of 100 clients a round, 600 samples of 28 x 28 pixels each, batch 10, one
epoch of 60 batches, SGD with lr 0.01. Pixels are random: the arithmetic is the same. The eager loop is what other
simulators do for each client: nn.Module, torch.optim.SGD, one batch after another; its data lie ready as floats, so
loading costs it nothing. Eager and vectorised blocks alternate, so that noise of the machine meets both. What a round
spends outside of training is measured behind that, in as many rounds one after the other, as a run has them.
"""

from __future__ import annotations

import argparse
import csv
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
from torch import nn
from written import write_results

from fl_ddp.arithmetic.repeatable import repeatable
from fl_ddp.config.command_line import from_mapping
from fl_ddp.config.registry import build
from fl_ddp.federation import Federation, build_federation
from fl_ddp.host.environment import prepare
from fl_ddp.host.interrupt import StopRequest
from fl_ddp.protocol import Tensors
from fl_ddp.ranks.checksum import checksum
from fl_ddp.ranks.collectives import Ranks
from fl_ddp.ranks.meeting import join
from fl_ddp.ranks.threads import one_torch_thread
from fl_ddp.records import Records
from fl_ddp.results.metrics import is_of_phase
from fl_ddp.simulation import Simulation

CLIENTS, COHORT, BATCH = 100, 10, 10
GREY, COLOURS, LETTERS = (1, 28, 28), (3, 32, 32), (80,)
CHARACTERS = 90
PAPERS = ["mlp", "cnn", "cnn_padded"]
"""The 5x5 CNN is there without padding (582,026 parameters) and as the recipes have it (padding 2, 1,663,370)."""
WORKLOADS = {
    "mlp": ("MLP", GREY),
    "cnn": ("FedKACNN", GREY),
    "cnn_padded": ("ImportanceCNN", GREY),
    "fedcurv_cnn": ("FedCurvCNN", GREY),
    "fedcl_mnist": ("FedCLMNIST", GREY),
    "filver": ("FilVerNet", GREY),
    "lenet5": ("LeNet5", COLOURS),
    "fedka_cnn": ("FedKACNN", COLOURS),
    "pfl_cnn": ("PflCNN", COLOURS),
    "fedcl_cifar": ("FedCLCIFAR", COLOURS),
    "resnet18": ("ResNet18", COLOURS),
    "resnet50": ("ResNet50", COLOURS),
    "char_lstm": ("CharLSTM", LETTERS),
}
"""All models that are shipped, and their samples: images, and characters of which the next one is guessed."""

Numbers = dict[str, float]


def eager_client(module: nn.Module, x: torch.Tensor, y: torch.Tensor, steps: int) -> None:
    """One client's local training as other simulators write it."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    for batch in torch.split(torch.randperm(len(y), device=y.device), BATCH)[:steps]:
        optimizer.zero_grad()
        _, logits = module(x[batch])
        torch.autograd.backward(nn.functional.cross_entropy(logits, y[batch]))
        optimizer.step()


def measure(
    workload: str, rounds: int, eager_steps: int, samples: int, ranks: Ranks, folder: Path, device: str
) -> Numbers:
    """Times of one workload on this rank, microseconds per client step of all ranks together."""
    name, shape = WORKLOADS[workload]
    if ranks.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
    config = from_mapping(
        {
            "data": str(data_file(folder, shape)),
            "partition": "IID",
            "model": name,
            "clients": CLIENTS,
            "cohort": COHORT,
            "batch_size": BATCH,
            "lr": 0.01,
            "rounds": 2 * rounds + 2,
            "device": device,
            "out": str(folder / "runs"),
            "name": f"{workload}-{ranks.size}",
        }
    )
    federation = build_federation(config, ranks)
    of_letters = {"num_classes": CHARACTERS, "num_tokens": CHARACTERS}
    module = build(config.model, in_shape=shape, **(of_letters if shape == LETTERS else {"num_classes": 10}))
    assert isinstance(module, nn.Module)
    module.to(ranks.device)
    train = federation.worlds.at(0).train
    x, y = train.x[:samples] if shape == LETTERS else train.x[:samples].float() / 255, train.y[:samples]
    records = Records(config, ranks, federation, ())
    simulation = Simulation(config, ranks, StopRequest(), federation, records)
    left = simulation.rounds()
    began = time.perf_counter()
    with one_torch_thread(ranks.device.type):
        next(left)
    first_round = time.perf_counter() - began
    eager_client(module, x, y, eager_steps)
    eager = list[float]()
    for _ in range(rounds):
        ranks.wait()
        synchronize(ranks)  # a GPU trains the next round's clients ahead
        began = time.perf_counter()
        eager_client(module, x, y, eager_steps)
        synchronize(ranks)
        eager.append((time.perf_counter() - began) / eager_steps / ranks.size * 1e6)
        ranks.wait()
        with one_torch_thread(ranks.device.type):
            next(left)
    ranks.wait()
    synchronize(ranks)
    began = time.perf_counter()
    with one_torch_thread(ranks.device.type):
        for _ in range(rounds):
            next(left)
        synchronize(ranks)  # what of the next round is trained ahead stands for what of the first one was
    whole = time.perf_counter() - began
    records.release()
    if not ranks.is_main:
        return {}
    numbers = summarise(records.path, eager, whole, first_round, federation, samples // BATCH)
    with one_torch_thread(ranks.device.type):
        # one rank has nobody to compare with
        compared = checksum_seconds(simulation.server, ranks) if ranks.size > 1 else 0.0
    return numbers | {"checksum_share": compared / (whole / rounds)}


def checksum_seconds(server: Tensors, ranks: Ranks) -> float:
    """What a round pays to see that the ranks' states are the same, where there are several; median of many.

    Before each, as much other memory is written as caches hold: a round leaves nothing of the state there.
    """
    seconds, others = [], torch.zeros(2**26, device=ranks.device)
    for _ in range(50):
        others.add_(1)
        synchronize(ranks)
        began = time.perf_counter()
        checksum(server)
        synchronize(ranks)
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def summarise(
    run: Path, eager: list[float], whole: float, first_round: float, federation: Federation, steps: int
) -> Numbers:
    """Numbers of a workload from its metrics.csv and the seconds of the rounds that follow each other.

    The first round compiles; then as many alternate with eager blocks as come one after the other.
    """
    with (run / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    phases = {name: [float(row[name]) for row in rows] for name in rows[0] if is_of_phase(name)}
    rounds = len(eager)
    train = [seconds / COHORT / steps * 1e6 for seconds in phases["time_training"][1 : rounds + 1]]
    outside = whole - sum(phases["time_training"][-rounds:]) - sum(phases["time_evaluation"][-rounds:])
    cuda = federation.model.device.type == "cuda"
    peak = torch.cuda.max_memory_allocated() if cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {
        "parameters": federation.model.num_params,
        "lanes": federation.lanes,
        "threads": torch.get_num_threads(),
        "eager_us": statistics.median(eager),
        "eager_us_least": min(eager),
        "engine_us": statistics.median(train),
        "engine_us_least": min(train),
        "speedup": statistics.median(eager) / statistics.median(train),
        "speedup_of_least": min(eager) / min(train),
        "share_outside_training_and_evaluation": outside / whole,
        "milliseconds_a_round": 1e3 * whole / rounds,
        "evaluation_milliseconds": 1e3 * statistics.median(phases["time_evaluation"][-rounds:]),
        "first_round_seconds": first_round,
        "peak_megabytes": peak / 1e6,
    }


def synchronize(ranks: Ranks) -> None:
    """Wait for the device."""
    if ranks.device.type == "cuda":
        torch.cuda.synchronize()


def data_file(folder: Path, shape: tuple[int, ...]) -> Path:
    """Where the samples of a shape are."""
    return folder / f"{shape[0]}.npz"


def write_data(file: Path, shape: tuple[int, ...], train: int, test: int) -> None:
    """Random pixels or characters, so many samples to train on and to test."""
    rng = np.random.default_rng(0)
    size = (train + test, *shape)
    letters = shape == LETTERS
    x = rng.integers(0, CHARACTERS, size) if letters else rng.integers(0, 256, size, np.uint8)
    y = rng.integers(0, CHARACTERS if letters else 10, len(x))
    np.savez(file, x_train=x[:train], y_train=y[:train], x_test=x[train:], y_test=y[train:])


def worker(options: argparse.Namespace) -> None:
    """One workload on this rank."""
    prepare()
    ranks = join(options.device)
    (name,) = options.workloads
    with repeatable(ranks.device.type, tf32=False):
        numbers = measure(
            name, options.rounds, options.eager_steps, options.samples, ranks, options.folder, options.device
        )
    if ranks.is_main:
        (options.folder / "numbers.json").write_text(json.dumps(numbers))
    ranks.close()


def table(results: dict[str, dict[str, Numbers]]) -> str:
    """Results as text."""
    columns = ("eager us", "engine us", "speed-up", "(least)", "outside", "checksum", "ms/round", "peak MB")
    lines = [" " * 24 + "".join(f" {column:>9}" for column in columns)]
    for ranks, workloads in results.items():
        for name, n in workloads.items():
            lines.append(
                f"{name + ', ' + ranks:24} {n['eager_us']:9.0f} {n['engine_us']:9.1f} {n['speedup']:9.2f} "
                f"{n['speedup_of_least']:9.2f} {n['share_outside_training_and_evaluation']:9.1%} "
                f"{n['checksum_share']:9.3%} {n['milliseconds_a_round']:9.1f} {n['peak_megabytes']:9.0f}"
            )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workloads", nargs="+", choices=[*WORKLOADS, "all"], default=PAPERS)
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--samples", type=int, default=600, help="of a client")
    parser.add_argument("--eager-steps", type=int, help="steps of each eager block; default a client's")
    parser.add_argument("--smoke", action="store_true", help="a few rounds of the MLP: does it run?")
    parser.add_argument("--out", type=Path, help="JSON file for the results")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.smoke:
        options.workloads, options.rounds, options.eager_steps = ["mlp"], 3, 10
    if "all" in options.workloads:
        options.workloads = list(WORKLOADS)
    options.eager_steps = min(options.eager_steps or options.samples, options.samples // BATCH)
    if options.folder:
        worker(options)
        return
    results = dict[str, dict[str, Numbers]]()
    with tempfile.TemporaryDirectory() as folder:
        for shape in {WORKLOADS[name][1] for name in options.workloads}:
            train = CLIENTS * options.samples
            write_data(data_file(Path(folder), shape), shape, train, train // 6)
        for ranks in options.ranks:
            label = f"{ranks} rank{'s' * (ranks > 1)}"
            results[label] = {}
            for name in options.workloads:
                results[label][name] = in_processes(ranks, name, Path(folder), options)
                print(table({label: {name: results[label][name]}}), flush=True)
                if options.out:  # a machine may be lent for less time than all of them take
                    write_results(options.out, results)
    print(table(results))


def in_processes(ranks: int, workload: str, folder: Path, options: argparse.Namespace) -> Numbers:
    """Numbers of one workload in processes of its own, whose peak of memory is its own, too."""
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"] if ranks > 1 else []
    given = {"folder": folder, "workloads": workload}
    given |= {name: getattr(options, name) for name in ("device", "rounds", "eager_steps", "samples")}
    words = [word for name, value in given.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    environment = os.environ | ({"OMP_NUM_THREADS": "1"} if ranks > 1 else {})
    command = [sys.executable, *launcher, __file__, *words]
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    return json.loads((folder / "numbers.json").read_text())  # type: ignore[no-any-return]


if __name__ == "__main__":
    main()
